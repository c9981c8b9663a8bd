import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { inNetns } from '../../lab/machine/netns.ts';
import type { NetnsRef } from '../../lab/plan/names.ts';
import { compiled } from './compiled.ts';

/** A process to start: its program, the files it reads and writes, and all of its environment. */
export interface Job {
  readonly program: string;
  readonly stdin: string;
  readonly stdout: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface JobRuns {
  /** Result of each job, in the order given. */
  readonly each: readonly { readonly exitCode: number; readonly ms: number }[];
  /** Time from the first start to the last end (ms). */
  readonly allMs: number;
}

/** Runs processes in one network namespace and times them from outside of Node, see launcher.c. */
export class Launcher {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  constructor(netns: NetnsRef) {
    const inside = inNetns(netns, compiled('launcher'), []);
    this.#process = spawn(inside.command, inside.args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  /** @param width number of concurrent jobs */
  async run(jobs: readonly Job[], width: number): Promise<JobRuns> {
    for (const { program, stdin, stdout, env } of jobs) {
      const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`);
      this.#process.stdin.write(`job\t${[program, stdin, stdout, ...variables].join('\t')}\n`);
    }
    this.#process.stdin.write(`run\t${width}\n`);
    const each: { exitCode: number; ms: number }[] = [];
    while (each.length < jobs.length) {
      const [exitCode = -1, nanoseconds = 0] = (await this.#line()).split(' ').map(Number);
      each.push({ exitCode, ms: nanoseconds / 1e6 });
    }
    const [, all] = (await this.#line()).split(' ');
    return { each, allMs: Number(all) / 1e6 };
  }

  /** Waits until the namespace has no such interface. */
  async untilGone(interfaceName: string): Promise<void> {
    this.#process.stdin.write(`gone\t${interfaceName}\n`);
    if ((await this.#line()) !== 'gone') throw new Error(`interface ${interfaceName} stays`);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('close', resolve));
    this.#process.stdin.end();
    await ended;
  }

  async #line(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the launcher ended');
    return value;
  }
}
