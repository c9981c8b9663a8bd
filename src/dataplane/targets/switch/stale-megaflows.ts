import { within } from '../../../base/async/time-limit.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { withDaemonControl } from './daemon-control.ts';

/** Time for which further changes are gathered after the first one (ms). */
const MORE_CHANGES_MS = 100;
/**
 * Pause between two purges for desired changes (ms), by the cost of a purge. A purge takes ovs-vswitchd about 2 ms, and 0.01 ms for each
 * megaflow; rebuilding the megaflows costs ten times as much. So a hundred times the duration of a purge amounts to one tenth of a CPU.
 */
const PAUSE_MS = { least: 250, most: 10_000, timesPurge: 100 } as const;
/** Number of recent purges of which the fastest counts: on a busy node a purge may wait for the CPU. */
const PURGES_COUNTED = 3;
/** Timeout for the answer (ms): a stopped ovs-vswitchd accepts the request and may never answer. */
const answerMs = 10_000;
/** Delay after a failed request (ms): an ovs-vswitchd that has died has lost its megaflows anyway. */
const retryPause = 5_000;

interface StaleMegaflowsOptions {
  /** OVS_RUNDIR */
  readonly runDir: string;
  /** Returns the version that OVS reports; undefined if it does not answer. */
  readonly version: (signal: AbortSignal) => Promise<string | undefined>;
  readonly forgotten: () => void;
  readonly failed: (error: SeineError) => void;
  /** Monotonic time (ms). */
  readonly now: () => number;
  /** Purges the megaflows; through the control socket of ovs-vswitchd if omitted. */
  readonly forget?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Purges megaflows after flow changes, on versions of OVS that may keep outdated ones.
 *
 * Where two megaflows match the same packets, the userspace data path of Open vSwitch 3.1 assigns the new actions of one to the other, and
 * the first keeps its old ones as long as packets arrive: it drops traffic that is now allowed, or passes traffic that is now denied. 3.5
 * does not (docs/adr/0066-megaflows-are-forgotten.md). The next packet rebuilds a purged megaflow from the flows.
 */
export class StaleMegaflows {
  readonly #options: StaleMegaflowsOptions;
  readonly #bell = new Doorbell();
  /** Time when the next purge is due; `Infinity` while none is needed. */
  #dueMs = Infinity;
  #forgottenMs = -Infinity;
  /** Durations of the last purges (ms). */
  readonly #tookMs: number[] = [];

  constructor(options: StaleMegaflowsOptions) {
    this.#options = options;
  }

  /** Notifies that flows were changed as desired. */
  changed(): void {
    this.#due(Math.max(this.#options.now() + MORE_CHANGES_MS, this.#forgottenMs + this.#pauseMs));
  }

  /** Notifies that foreign changes were repaired: no caller waits for that. */
  repaired(): void {
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

  /** Waits for this time, or until the purge is due, if that is sooner. */
  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    const timer = ms === Infinity ? undefined : setTimeout(() => over.abort(), ms);
    await this.#bell.wait(either);
    clearTimeout(timer);
  }

  async #forgetNow(signal: AbortSignal): Promise<void> {
    const { version, forgotten, failed, now } = this.#options;
    this.#dueMs = Infinity; // changes from here on need another purge
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
      if (error.code === 'REFUSED') return; // this version does not have the command
      this.#due(now() + retryPause);
    }
  }
}

/** Reports whether this version of OVS may keep outdated actions on the userspace data path. Observed on 3.1.0; not on 3.5.0 and 4.0.0. */
export function mayKeepOldActions(version: string | undefined): boolean {
  const [, major = '0', minor = '0'] = /^(\d{1,4})\.(\d{1,4})/.exec(version ?? '') ?? [];
  return Number(major) < 3 || (Number(major) === 3 && Number(minor) < 5);
}

/**
 * Purges all megaflows of ovs-vswitchd, like `ovs-appctl revalidator/purge`; their counters are first added to the flows.
 *
 * @param runDir OVS_RUNDIR
 * @throws SeineError `UNAVAILABLE` if the daemon does not answer; `REFUSED` if it has no such command; `CANCELLED`
 */
export async function forgetMegaflows(runDir: string, signal: AbortSignal): Promise<void> {
  await withDaemonControl(runDir, (session) => session.call({ method: 'revalidator/purge', params: [] }, () => undefined, signal), signal);
}
