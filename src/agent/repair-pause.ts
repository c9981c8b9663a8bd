import type { NodeDatapath } from '../datapath/node-datapath.ts';
import type { Log } from '../log/log.ts';

/** Longer than any look at a node takes: nobody forgets a node in this state for ever. */
export const pauseSecondsMax = 24 * 3_600;

export interface RepairPauseOptions {
  readonly datapath: Pick<NodeDatapath, 'pauseRepair' | 'resumeRepair'>;
  readonly log: Log;
  /** Tells the cluster. */
  readonly tell: (reason: 'RepairPaused' | 'RepairResumed', message: string) => void;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/**
 * Lets an operator change what is ours of a node, for a while, without its being put back at once. Pods come and go meanwhile, and
 * what a restarted switch lacks is put back: only looking for foreign changes waits.
 *
 * It ends by itself, and with this process: an agent that starts makes everything as it is wanted.
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

  /** @param seconds from now, whatever was asked for before; 1 to `pauseSecondsMax` */
  pause(seconds: number): void {
    const { datapath, log, tell, now } = this.#options;
    clearTimeout(this.#timer);
    this.#untilMs = now() + seconds * 1_000;
    this.#timer = setTimeout(() => this.resume('the time is over'), seconds * 1_000).unref();
    datapath.pauseRepair();
    log.warn('what others change is not put back for now', { seconds });
    tell('RepairPaused', `What others change of this node's network is not put back for ${seconds} seconds.`);
  }

  /** Nothing happens if it was not paused. */
  resume(why: string): void {
    const { datapath, log, tell } = this.#options;
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#untilMs = -Infinity;
    datapath.resumeRepair();
    log.info('what others change is put back again', { why });
    tell('RepairResumed', `What others change of this node's network is put back again: ${why}.`);
  }
}
