import { idle } from '../../async/pause.ts';
import { within } from '../../async/within.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Log } from '../../log/log.ts';
import type { ConnectionCleaner } from './connection-cleaner.ts';
import { leftBehind } from './left-behind.ts';
import { type LedAddress, type LedReader, readServed } from './served-before.ts';

/** How long the bridge is waited for before Services are served without knowing what it served (ms). */
const PATIENCE_MS = 5_000;
/** When it is compared again: after some was stale, with each look in a row twice as late; after a failure, and after a hold. */
const AGAIN_MS = { stale: 1_000, failed: 5_000, held: 10_000 } as const;
const AGAIN_AT_LATEST_MS = 60_000;
/** A loss of more than this share, and of at least so many, is held until a second look comes to the same: as with lists of the API server. */
const HOLD = { share: 0.3, atLeast: 5 } as const;

interface StartCleanerOptions {
  readonly bridge: LedReader;
  readonly cleaner: Pick<ConnectionCleaner, 'clean' | 'served' | 'transports'>;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Forgets connections that went stale while no agent ran. The userspace data path's tracker cannot be listed by a protocol; but the bridge
 * still leads where the last agent wanted it to, and what differs from that is what a running agent would have cleaned up after.
 */
export class StartCleaner {
  readonly #options: StartCleanerOptions;
  #led: readonly LedAddress[] | undefined;
  #held = 0;

  constructor(options: StartCleanerOptions) {
    this.#options = options;
  }

  /** Endpoints and addresses whose connections are kept until a second look, for they are too many to go at once. */
  get held(): number {
    return this.#held;
  }

  /** Reads what the bridge serves. To be awaited before the first Service is wanted. Rejects only when the agent stops. */
  async remember(): Promise<void> {
    const { bridge, cleaner, log, signal } = this.#options;
    try {
      this.#led = await readServed(bridge, cleaner.transports, within(signal, PATIENCE_MS));
    } catch (thrown) {
      signal.throwIfAborted();
      const { message: cause } = SeineError.from(thrown, 'read the bridge');
      log.warn('what the bridge served before is not known; connections of Services that changed meanwhile are left as they are', {
        cause,
      });
    }
  }

  /** @param inStep resolves once every Service that is known is on the bridge; rejects only when the agent stops */
  async run(inStep: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    const isInStep = await inStep.then(
      () => true,
      () => false,
    );
    for (let looks = 0; isInStep && this.#led !== undefined && !signal.aborted; looks++) {
      const result = await this.#compare(this.#led);
      if (result !== 'done') await idle(Math.min(AGAIN_AT_LATEST_MS, AGAIN_MS[result] * 2 ** looks), signal);
    }
  }

  /** Done once the bridge leads nowhere that is stale: until its old flows are gone, they make such connections anew. */
  async #compare(led: readonly LedAddress[]): Promise<'done' | 'stale' | 'failed' | 'held'> {
    const { bridge, cleaner, log, signal } = this.#options;
    const { stale, lost, all } = leftBehind(led, cleaner.served);
    if (this.#held === 0 && lost >= HOLD.atLeast && lost > HOLD.share * all) {
      this.#held = lost;
      const told = 'connections to many endpoints would be forgotten at once; they are if a second look comes to the same';
      log.failing('start connections', told, { endpoints: all, gone: lost, cause: 'more than 30 % at once' });
      return 'held';
    }
    this.#held = 0;
    cleaner.clean(stale, Promise.resolve());
    if (lost > 0) log.info('Services changed while no agent ran; connections that lead to what is gone are forgotten', { endpoints: lost });
    try {
      this.#led = lost === 0 ? undefined : await readServed(bridge, cleaner.transports, signal);
    } catch (thrown) {
      if (!signal.aborted)
        log.failing('start connections', 'the bridge could not be read', { cause: SeineError.from(thrown, 'read').message });
      return 'failed';
    }
    log.working('start connections');
    return this.#led === undefined ? 'done' : 'stale';
  }
}
