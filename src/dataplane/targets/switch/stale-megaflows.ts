import { within } from '../../../base/async/time-limit.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { withDaemonControl } from './daemon-control.ts';

/** Changes within this time (ms) after the first one are waited for. */
const MORE_CHANGES_MS = 100;
/**
 * The pause between two purges for wanted changes (ms), by the cost of a purge. A purge takes about 2 ms of ovs-vswitchd, and 0.01 ms for
 * each megaflow; that packets find their flows again costs ten times as much. So a hundred times the time of a purge is one tenth of a CPU.
 */
const PAUSE_MS = { least: 250, most: 10_000, timesPurge: 100 } as const;
/** Purges of which the fastest counts: on a busy node one may wait for the CPU. */
const PURGES_COUNTED = 3;
/** A switch that is frozen takes the request, and may never answer (ms). */
const answerMs = 10_000;
/** After a switch that does not answer (ms): one that died has forgotten everything by itself. */
const retryPause = 5_000;

interface StaleMegaflowsOptions {
  /** OVS_RUNDIR */
  readonly runDir: string;
  /** Which version the switch says it is; undefined if it does not answer. */
  readonly version: (signal: AbortSignal) => Promise<string | undefined>;
  readonly forgotten: () => void;
  readonly failed: (error: SeineError) => void;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Left out: by the control socket of ovs-vswitchd. */
  readonly forget?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Has a switch forget its megaflows after its flows were changed, if it is one that may go on with some that are out of date.
 *
 * Where two megaflows take the same packets, the userspace data path of Open vSwitch 3.1 gives the new actions of one to the other, and the
 * first keeps its old ones for as long as packets come: it drops what is allowed by now, or passes what is denied. 3.5 does not
 * (docs/adr/0066-megaflows-are-forgotten.md). What was forgotten is found again by the flows, with the next packet.
 */
export class StaleMegaflows {
  readonly #options: StaleMegaflowsOptions;
  readonly #bell = new Doorbell();
  /** From when on they are to be forgotten; `Infinity` while all are right. */
  #dueMs = Infinity;
  #forgottenMs = -Infinity;
  /** The time that the last purges took (ms). */
  readonly #tookMs: number[] = [];

  constructor(options: StaleMegaflowsOptions) {
    this.#options = options;
  }

  /** Flows were changed as is wanted now. */
  changed(): void {
    this.#due(Math.max(this.#options.now() + MORE_CHANGES_MS, this.#forgottenMs + this.#pauseMs));
  }

  /** What others had changed was mended: nobody waits for that. */
  mended(): void {
    this.#due(this.#options.now());
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const leftMs = this.#dueMs - this.#options.now();
      if (leftMs > 0) await this.#wait(leftMs, signal);
      else await this.#forgetNow(signal);
    }
  }

  get #pauseMs(): number {
    return Math.min(
      PAUSE_MS.most,
      Math.max(PAUSE_MS.least, PAUSE_MS.timesPurge * (this.#tookMs.length === 0 ? 0 : Math.min(...this.#tookMs))),
    );
  }

  #due(atMs: number): void {
    if (atMs >= this.#dueMs) return;
    this.#dueMs = atMs;
    this.#bell.ring();
  }

  /** Until so much time is over, or it is due sooner. */
  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    const timer = ms === Infinity ? undefined : setTimeout(() => over.abort(), ms);
    await this.#bell.wait(either);
    clearTimeout(timer);
  }

  async #forgetNow(signal: AbortSignal): Promise<void> {
    const { version, forgotten, failed, now } = this.#options;
    this.#dueMs = Infinity; // what is changed from here on counts anew
    try {
      if (!mayKeepOldActions(await version(signal))) return;
      const beganMs = now();
      this.#forgottenMs = beganMs; // a change during the purge waits for the pause, too
      await (this.#options.forget ?? ((until) => forgetMegaflows(this.#options.runDir, until)))(within(signal, answerMs));
      this.#forgottenMs = now();
      this.#tookMs.push(this.#forgottenMs - beganMs);
      if (this.#tookMs.length > PURGES_COUNTED) this.#tookMs.shift();
      forgotten();
    } catch (thrown) {
      if (signal.aborted) return;
      const error = SeineError.from(thrown, 'forget megaflows');
      if (error.remedy === 'crash') throw error;
      failed(error);
      if (error.code === 'REFUSED') return; // it knows no such command
      this.#due(now() + retryPause);
    }
  }
}

/** Whether a switch of this version may keep what is out of date, on the userspace data path. Seen on 3.1.0; not on 3.5.0 and 4.0.0. */
export function mayKeepOldActions(version: string | undefined): boolean {
  const [, major = '0', minor = '0'] = /^(\d{1,4})\.(\d{1,4})/.exec(version ?? '') ?? [];
  return Number(major) < 3 || (Number(major) === 3 && Number(minor) < 5);
}

/**
 * Has ovs-vswitchd forget all megaflows, as `ovs-appctl revalidator/purge` does; their counts go to the flows before.
 *
 * @param runDir OVS_RUNDIR
 * @throws SeineError `UNAVAILABLE` if the daemon does not answer; `REFUSED` if it knows no such command; `CANCELLED`
 */
export async function forgetMegaflows(runDir: string, signal: AbortSignal): Promise<void> {
  await withDaemonControl(runDir, (session) => session.call({ method: 'revalidator/purge', params: [] }, () => undefined, signal), signal);
}
