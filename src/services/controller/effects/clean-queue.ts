import { idle } from '../../../base/async/pause.ts';
import { within } from '../../../base/async/time-limit.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';

/** A pass takes a fifth of our time and no more: a walk through the kernel's table takes 13 ms when it has 262,144 buckets, however few are used. */
const REST_FOR_EACH_PASS = 4;
/** A pass that had to wait for the switch to come back took no time of ours (ms). */
const REST_MOST_MS = 250;
/** How long after a failed pass the next one is tried (ms): doubled with each in a row. */
const RETRY_MS = { first: 200, most: 30_000 } as const;

interface CleanQueueOptions<T> {
  /** Two of one key are the same work. */
  readonly keyOf: (work: T) => string;
  /** Above this many that wait, each is replaced by what `coarser` makes of it. */
  readonly waitingMax: number;
  /** Work that includes this one and forgets more than it; many have the same. */
  readonly coarser: (work: T) => T;
  /** What would be forgotten now is served again. */
  readonly isOutOfDate: (work: T) => boolean;
  /** Does all of it; what it did counts only if it resolves. */
  readonly pass: (due: readonly T[]) => void | Promise<void>;
  readonly failed: (thrown: unknown) => void;
  readonly signal: AbortSignal;
}

interface WaitingWork<T> {
  readonly work: T;
  /** When it is to be done (`performance.now()`); ascending, at least one. */
  readonly dueMs: readonly number[];
}

/**
 * Work that is done several times, some while apart, and again after it failed until it succeeds: nothing is lost but by the end of the
 * agent. What is due at one time is done in one pass.
 */
export class CleanQueue<T> {
  readonly #options: CleanQueueOptions<T>;
  readonly #waiting = new Map<string, WaitingWork<T>>();
  readonly #bell = new Doorbell();
  #isWorking = false;
  #failures = 0;
  #merged = 0;

  constructor(options: CleanQueueOptions<T>) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** How often work was replaced by coarser work, for there was too much of it. */
  get merged(): number {
    return this.#merged;
  }

  /** @param afterMs when, counted from now (ms); ascending, at least one */
  add(all: readonly T[], afterMs: readonly number[]): void {
    const { waitingMax, coarser } = this.#options;
    const isTooMuch = this.#waiting.size + all.length > waitingMax;
    for (const work of all) this.#note(isTooMuch ? coarser(work) : work, afterMs);
    if (isTooMuch) this.#merge(afterMs);
    if (this.#waiting.size === 0) return;
    if (this.#isWorking) this.#bell.ring();
    else void this.#work();
  }

  #note(work: T, afterMs: readonly number[]): void {
    const nowMs = performance.now();
    this.#waiting.set(this.#options.keyOf(work), { work, dueMs: afterMs.map((ms) => nowMs + ms) });
  }

  #merge(afterMs: readonly number[]): void {
    const { keyOf, coarser } = this.#options;
    for (const [key, { work }] of this.#waiting) {
      const instead = coarser(work);
      if (keyOf(instead) === key) continue;
      this.#waiting.delete(key);
      this.#note(instead, afterMs);
      this.#merged++;
    }
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    const { signal, isOutOfDate } = this.#options;
    this.#isWorking = true;
    while (this.#waiting.size > 0 && !signal.aborted) {
      const beginMs = performance.now();
      for (const [key, { work }] of this.#waiting) if (isOutOfDate(work)) this.#waiting.delete(key);
      const due = [...this.#waiting].filter(([, { dueMs }]) => (dueMs[0] ?? 0) <= beginMs);
      if (due.length > 0) {
        await this.#tryPass(due, beginMs);
        await idle(REST_FOR_EACH_PASS * Math.min(performance.now() - beginMs, REST_MOST_MS), signal);
      }
      await this.#untilDue();
    }
    this.#isWorking = false;
  }

  /** What was added again meanwhile stays as it was added. */
  async #tryPass(due: readonly (readonly [string, WaitingWork<T>])[], beginMs: number): Promise<void> {
    const { pass, failed, signal } = this.#options;
    const retryMs = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.#failures);
    const isDone = await attempt(() => pass(due.map(([, { work }]) => work)), failed);
    if (signal.aborted) return;
    this.#failures = isDone ? 0 : this.#failures + 1;
    for (const [key, entry] of due) {
      if (this.#waiting.get(key) !== entry) continue;
      const later = entry.dueMs.filter((ms) => ms > beginMs);
      const again = isDone ? later : [performance.now() + retryMs];
      if (again.length === 0) this.#waiting.delete(key);
      else this.#waiting.set(key, { work: entry.work, dueMs: again });
    }
  }

  /** Or until something is added. */
  async #untilDue(): Promise<void> {
    if (this.#waiting.size === 0) return;
    let dueMs = Infinity;
    for (const each of this.#waiting.values()) dueMs = Math.min(dueMs, each.dueMs[0] ?? 0);
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await this.#bell.wait(within(this.#options.signal, Math.ceil(waitMs)));
  }
}

async function attempt(act: () => void | Promise<void>, failed: (thrown: unknown) => void): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (thrown) {
    failed(thrown);
    return false;
  }
}
