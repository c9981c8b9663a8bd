import type { Target } from './target.ts';

/** Maximum CPU time of an input (ms). */
const inputMsMax = 50;
/** A slow input is slow again; a garbage collection or another process is not. */
const looks = 4;

/** An input that a reader fails on. */
export class Fault extends Error {
  readonly input: Buffer;

  constructor(message: string, input: Buffer, cause?: unknown) {
    super(message, { cause });
    this.input = input;
  }
}

/** Passes inputs to a target, and counts them. */
export class Reader {
  readonly #target: Target;
  inputs = 0;
  read = 0;
  slowestMs = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  /** @throws Fault if anything but a rejection was thrown, or it took too long */
  async take(input: Buffer): Promise<void> {
    this.inputs += 1;
    let ms = await this.#timed(input);
    for (let left = looks - 1; ms > inputMsMax && left > 0; left -= 1) ms = Math.min(ms, await this.#timed(input));
    if (ms > inputMsMax) throw new Fault(`took ${ms.toFixed(0)} ms, ${looks} times`, input);
    this.slowestMs = Math.max(this.slowestMs, ms);
  }

  /** @returns CPU time of this process (ms) */
  async #timed(input: Buffer): Promise<number> {
    const before = process.cpuUsage();
    try {
      if (await this.#target.read(input)) this.read += 1;
    } catch (thrown) {
      throw new Fault(`threw ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)}`, input, thrown);
    }
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  }
}
