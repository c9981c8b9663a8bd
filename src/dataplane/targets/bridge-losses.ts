import { type BridgeKey, tableOfKey } from './bridge/bridge-entry.ts';
import type { NodeStateEvents } from './target-options.ts';

/** Number of lost entries from which a loss is more than that of a few pods or Services. */
const MANY = 100;

/** Reasons why the node is not ready. */
interface Obstacles {
  obstruct(what: string, state: 'starting' | 'impaired', reason: string): void;
  clear(what: string): void;
}

interface BridgeLossesOptions {
  readonly readiness: Obstacles;
  /** Returns the number of desired flows of each table. */
  readonly desired: () => ReadonlyMap<number, number>;
}

/**
 * Reports the node as not ready while the bridge may be without its flows: after a new connection, until the bridge was read, and after
 * another program has deleted all flows of a table, or many, until they are restored. Single flows are repaired at once, and do not concern
 * other pods.
 */
export class BridgeLosses {
  readonly #options: BridgeLossesOptions;
  #wasConnected = false;

  constructor(options: BridgeLossesOptions) {
    this.#options = options;
  }

  /** Call when OVS is connected. If it was before, it may have restarted. */
  connected(): void {
    if (!this.#wasConnected) {
      this.#wasConnected = true;
      return;
    }
    this.#options.readiness.obstruct(obstacle, 'starting', 'ovs-vswitchd was connected again; the agent checks the flows of the bridge');
  }

  /** Returns the same events, followed by this object. */
  follow(events: NodeStateEvents): NodeStateEvents {
    const { readiness, desired } = this.#options;
    return {
      ...events,
      lost: (part, keys) => {
        if (part === 'bridge' && (keys.length >= MANY || hasWholeTable(keys as readonly BridgeKey[], desired())))
          readiness.obstruct(obstacle, 'impaired', `${keys.length} flows and groups of the bridge were deleted; the agent restores them`);
        events.lost?.(part, keys);
      },
      complete: (part) => {
        if (part === 'bridge') readiness.clear(obstacle);
        events.complete?.(part);
      },
    };
  }
}

const obstacle = 'lost flows';

function hasWholeTable(lost: readonly BridgeKey[], desired: ReadonlyMap<number, number>): boolean {
  return [...Map.groupBy(lost, tableOfKey)].some(([table, keys]) => table !== undefined && keys.length === desired.get(table));
}
