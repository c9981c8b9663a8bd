import type { Log } from '../../base/log/log.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';

/** Maximum duration, longer than manual work takes: a pause that is forgotten ends. */
export const pauseSecondsMax = 24 * 3_600;

interface RepairPauseOptions {
  readonly nodeState: Pick<NodeState, 'pauseRepair' | 'resumeRepair'>;
  readonly log: Log;
  /** Posts an event. */
  readonly postEvent: (reason: 'RepairPaused' | 'RepairResumed', message: string) => void;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
}

/**
 * Lets an operator change Seine's entries of a node manually, for a while, without repair. Pods are created and deleted meanwhile, and
 * entries that a restarted ovs-vswitchd lacks are added again: only the search for foreign changes waits.
 *
 * It ends by itself, and with this process: an agent that starts restores the desired state.
 */
export class RepairPause {
  readonly #options: RepairPauseOptions;
  #untilMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RepairPauseOptions) {
    this.#options = options;
  }

  /** 0 if repair is not paused. */
  get secondsLeft(): number {
    return Math.max(0, Math.ceil((this.#untilMs - this.#options.now()) / 1_000));
  }

  /** @param seconds from now, replacing an earlier value; 1 to `pauseSecondsMax` */
  pause(seconds: number): void {
    const { nodeState: datapath, log, postEvent, now } = this.#options;
    clearTimeout(this.#timer);
    this.#untilMs = now() + seconds * 1_000;
    this.#timer = setTimeout(() => this.resume('the time is over'), seconds * 1_000).unref();
    datapath.pauseRepair();
    log.warn('repair is paused', { seconds });
    postEvent('RepairPaused', `Foreign changes to this node's network are not repaired for ${seconds} seconds.`);
  }

  /** Has no effect if it was not paused. */
  resume(why: string): void {
    const { nodeState: datapath, log, postEvent } = this.#options;
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#untilMs = -Infinity;
    datapath.resumeRepair();
    log.info('repair resumes', { why });
    postEvent('RepairResumed', `Foreign changes to this node's network are repaired again: ${why}.`);
  }
}
