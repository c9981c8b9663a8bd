import type { ChildProcess } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import { startNodeProgram } from '../host.ts';

/** A program of each node, on a port that host ports may request. */
export const nodeProgram = 'a program of the node';
export const nodeProgramPort = 22;

export interface ProbeTarget {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
  /** Timeout of one try (ms). */
  readonly tryMs: number;
  /** Total time of tries: one try, if no longer than that. */
  readonly withinMs: number;
}

export interface ProbeQuestion {
  readonly targets: readonly ProbeTarget[];
}

export interface ProbeOutcome {
  /** Name of the responder; absent without an answer. */
  readonly by?: string;
  readonly tookMs: number;
}

export interface ProbeAnswer {
  /** Outcomes in the order of the targets. */
  readonly outcomes: readonly ProbeOutcome[];
}

/** Source of packets: a process in a namespace, one question at a time. */
export class Prober {
  readonly #process: ChildProcess;
  readonly #answers: Interface;
  #fails: (reason: Error) => void = () => {};

  constructor(netns: string, log: number, mark: Readonly<Record<string, string>>) {
    this.#process = startNodeProgram(netns, 'hostile/prober.ts', [], log, mark);
    if (this.#process.stdout === null) throw new Error('a prober has no output');
    this.#answers = createInterface({ input: this.#process.stdout });
    this.#answers.once('close', () => this.#fails(new Error(`the prober in ${netns} ended`)));
  }

  async ask(targets: readonly ProbeTarget[]): Promise<readonly ProbeOutcome[]> {
    if (targets.length === 0) return [];
    const answered = new Promise<string>((resolve, reject) => {
      this.#answers.once('line', resolve);
      this.#fails = reject;
    });
    const question: ProbeQuestion = { targets };
    this.#process.stdin?.write(`${JSON.stringify(question)}\n`);
    return (JSON.parse(await answered) as ProbeAnswer).outcomes;
  }

  close(): void {
    this.#process.kill('SIGKILL');
  }
}
