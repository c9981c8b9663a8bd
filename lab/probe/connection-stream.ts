import { setTimeout as sleep } from 'node:timers/promises';
import type { NetnsRef } from '../plan/names.ts';
import { ask, type Outcome } from './probe.ts';

const tickMs = 5;
/** Maximum time made up for after a pause of this process: a larger burst would measure the process, not the network. */
const burstMaxMs = 20;
/** The kernel retransmits a lost SYN after a second: a connection that took this long lost a packet. */
const lateMs = 900;
const timeoutMs = 5_000;

/** Source, destination and rate of connections. */
interface ConnectionsWanted {
  readonly from: NetnsRef;
  readonly address: string;
  readonly port: number;
  readonly perSecond: number;
}

export interface ConnectionCount {
  readonly opened: number;
  /** Refused, reset, unreachable or without an answer. */
  readonly failed: number;
  /** Answered, but only after a retransmission. */
  readonly late: number;
  /** Failures by kind, e.g. `99 × REFUSED, of connections opened 1203 to 1310 ms after the first`. */
  readonly failures: readonly string[];
  /** Number of connections that each endpoint answered. */
  readonly byPod: ReadonlyMap<string, number>;
}

/** Failures of one kind, and the times at which the first and the last of these connections were opened (ms since the first of all). */
interface CountedFailure {
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** Opens TCP connections at a steady rate, has each answered, and counts losses, until stopped. */
export class ConnectionStream {
  readonly #wanted: ConnectionsWanted;
  readonly #stopping = new AbortController();
  readonly #finished: Promise<void>;
  readonly #open = new Set<Promise<void>>();
  readonly #byPod = new Map<string, number>();
  readonly #failures = new Map<string, CountedFailure>();
  readonly #startMs = performance.now();
  #opened = 0;
  #failed = 0;
  #late = 0;

  constructor(wanted: ConnectionsWanted) {
    this.#wanted = wanted;
    this.#finished = this.#run(this.#stopping.signal);
  }

  get opened(): number {
    return this.#opened;
  }

  /** Number of connections a pod (`namespace/name`) answered so far. */
  answeredBy(pod: string): number {
    return this.#byPod.get(pod) ?? 0;
  }

  /** Resolves when the last connection is answered or has timed out. */
  async stop(): Promise<ConnectionCount> {
    this.#stopping.abort();
    await this.#finished;
    await Promise.all(this.#open);
    const failures = [...this.#failures].map(
      ([why, { count, firstMs, lastMs }]) =>
        `${count} × ${why}, of connections opened ${firstMs.toFixed(0)} to ${lastMs.toFixed(0)} ms after the first`,
    );
    return { opened: this.#opened, failed: this.#failed, late: this.#late, failures, byPod: this.#byPod };
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { perSecond } = this.#wanted;
    for (let doneUntilMs = performance.now(); !signal.aborted; ) {
      const nowMs = performance.now();
      doneUntilMs = Math.max(doneUntilMs, nowMs - burstMaxMs);
      for (; doneUntilMs <= nowMs; doneUntilMs += 1000 / perSecond) this.#openOne();
      await sleep(tickMs);
    }
  }

  #openOne(): void {
    this.#opened++;
    const { from, address, port } = this.#wanted;
    const openedMs = performance.now() - this.#startMs;
    const one = ask({ from, protocol: 'tcp', address, port, timeoutMs })
      .then(
        (outcome) => this.#count(outcome, openedMs),
        (error: unknown) => this.#fail(String(error), openedMs),
      )
      .finally(() => this.#open.delete(one));
    this.#open.add(one);
  }

  #count(outcome: Outcome, openedMs: number): void {
    if (outcome.is !== 'OK') {
      this.#fail(outcome.is === 'UNREACHABLE' ? outcome.errno : outcome.is, openedMs);
      return;
    }
    if (outcome.ms >= lateMs) this.#late++;
    this.#byPod.set(outcome.answer.pod, (this.#byPod.get(outcome.answer.pod) ?? 0) + 1);
  }

  #fail(why: string, openedMs: number): void {
    this.#failed++;
    const { count, firstMs } = this.#failures.get(why) ?? { count: 0, firstMs: openedMs };
    this.#failures.set(why, { count: count + 1, firstMs, lastMs: openedMs });
  }
}
