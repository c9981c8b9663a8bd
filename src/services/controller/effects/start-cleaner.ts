import { idle } from '../../../base/async/pause.ts';
import { within } from '../../../base/async/time-limit.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import type { TrackedConnection } from '../../../netlink/conntrack.ts';
import { staleSince } from './changed-endpoints.ts';
import type { ConnectionCleaner } from './connection-cleaner.ts';
import { readServed, type ServedDestination, type ServedFlowReader } from './previously-served.ts';
import { assessConnection, type TrackedConnections } from './tracked-connections.ts';

/** Maximum time to wait for the bridge before Services are served without knowing what it served (ms). */
const PATIENCE_MS = 5_000;
/**
 * Delay before the next comparison (ms): after stale connections, doubled with each consecutive check; after a failure; and after delayed
 * deletions.
 */
const AGAIN_MS = { stale: 1_000, failed: 5_000, held: 10_000 } as const;
/**
 * Maximum number of checks that find stale connections: any that remain are created again by something that this agent does not know, and
 * are left alone.
 */
const STALE_CHECKS_MAX = 6;
/**
 * Size of a loss that is delayed until a second check confirms it: more than this share, and at least this number, as for lists of the API
 * server.
 */
const HOLD = { share: 0.3, atLeast: 5 } as const;

interface StartCleanerOptions {
  readonly bridge: ServedFlowReader;
  readonly cleaner: Pick<ConnectionCleaner, 'clean' | 'served' | 'transports'>;
  /** Connections of the kernel, which can be listed. */
  readonly tracked: Pick<TrackedConnections, 'list' | 'forget'>;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Waits for this time (ms), or until the signal. */
  readonly idle?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Number of present items, and number that would be removed. */
interface Loss {
  readonly lost: number;
  readonly all: number;
}

/**
 * Deletes connections that became stale while no agent ran. The kernel's connections are listed. Those of the userspace data path cannot
 * be, with any protocol; but the bridge still has the last agent's destinations, and where the current ones differ, a running agent would
 * have deleted connections.
 */
export class StartCleaner {
  readonly #options: StartCleanerOptions;
  /** Addresses that the bridge served; empty if it could not be read. */
  #served: readonly ServedDestination[] = [];
  #held = 0;

  constructor(options: StartCleanerOptions) {
    this.#options = options;
  }

  /** Number of endpoints and connections that wait for a second check, because they are many. */
  get held(): number {
    return this.#held;
  }

  /** Reads what the bridge serves. Await this before the first Service is desired. Rejects only when the agent stops. */
  async remember(): Promise<void> {
    const { bridge, cleaner, log, signal } = this.#options;
    try {
      this.#served = await readServed(bridge, cleaner.transports, within(signal, PATIENCE_MS));
    } catch (thrown) {
      signal.throwIfAborted();
      const { message: cause } = SeineError.from(thrown, 'read the bridge');
      log.warn('Services of the previous agent are not known; connections of Services that changed meanwhile are kept', {
        cause,
      });
    }
  }

  /** @param inStep resolves once every known Service is on the bridge; rejects only when the agent stops */
  async run(inStep: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    const isInStep = await inStep.then(
      () => true,
      () => false,
    );
    let looks = 0;
    while (isInStep && !signal.aborted) {
      const result = await this.#tryCompare();
      if (result === 'stale') looks++;
      if (result === 'done' || looks === STALE_CHECKS_MAX) return;
      await (this.#options.idle ?? idle)(AGAIN_MS[result] * (result === 'stale' ? 2 ** (looks - 1) : 1), signal);
    }
  }

  async #tryCompare(): Promise<'done' | 'stale' | 'failed' | 'held'> {
    const { log, signal } = this.#options;
    try {
      const result = await this.#compare();
      if (result !== 'held') log.working('start connections');
      return result;
    } catch (thrown) {
      const { message: cause } = SeineError.from(thrown, 'compare connections');
      if (!signal.aborted) log.failing('start connections', 'connections could not be compared with the Services', { cause });
      return 'failed';
    }
  }

  /**
   * Compares. Done once nothing is stale and the bridge has no destination that is: until its old flows are removed, they create such
   * connections again.
   */
  async #compare(): Promise<'done' | 'stale' | 'held'> {
    const { bridge, cleaner, tracked, log, signal } = this.#options;
    const { stale, ...ofBridge } = staleSince(this.#served, cleaner.served);
    const { astray, ...ofKernel } = judged(await tracked.list(cleaner.transports), cleaner.served);
    if (this.#held === 0 && (isTooMuch(ofBridge) || isTooMuch(ofKernel))) {
      this.#held = Math.max(ofBridge.lost, ofKernel.lost);
      const message = 'mass deletion of connections to removed endpoints is delayed until a second check confirms it';
      const numbers = { endpoints: ofBridge.all, gone: ofBridge.lost, connections: ofKernel.all, astray: ofKernel.lost };
      log.failing('start connections', message, { ...numbers, cause: 'more than 30 % at once' });
      return 'held';
    }
    this.#held = 0;
    if (ofBridge.lost + ofKernel.lost === 0) return 'done';
    log.info('Services changed while no agent ran; deleting stale connections', {
      endpoints: ofBridge.lost,
      connections: ofKernel.lost,
    });
    cleaner.clean(stale, Promise.resolve());
    await tracked.forget(astray);
    this.#served = await readServed(bridge, cleaner.transports, signal);
    return 'stale';
  }
}

function judged(
  connections: readonly TrackedConnection[],
  served: ConnectionCleaner['served'],
): Loss & { readonly astray: TrackedConnection[] } {
  const verdicts = Map.groupBy(connections, (each) => assessConnection(each, served));
  const [well, astray] = [verdicts.get('well') ?? [], verdicts.get('astray') ?? []];
  return { lost: astray.length, all: well.length + astray.length, astray };
}

function isTooMuch({ lost, all }: Loss): boolean {
  return lost >= HOLD.atLeast && lost > HOLD.share * all;
}
