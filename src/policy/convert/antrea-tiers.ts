import type { Converted } from './antrea-selection.ts';
import type { ConvertedTier } from './drafts.ts';

export const DEFAULT_TIER = 'application';

/** Tiers that every cluster with Antrea has. */
const usual = { emergency: 50, securityops: 100, networkops: 150, platform: 200, application: 250, baseline: 253 } as const;

const LAST_ADMIN = 250;
const BASELINE = 253;

/** Priorities of Antrea's tiers, by name. */
export class AntreaTiers {
  readonly #priorities = new Map<string, number>(Object.entries(usual));

  add(name: string, priority: number): void {
    this.#priorities.set(name, priority);
  }

  /** Returns the tier of ClusterNetworkPolicies that stands for one of Antrea's. */
  placeOf(name: string): Converted<{ readonly tier: ConvertedTier; readonly priority: number }> {
    const priority =
      this.#priorities.get(name) ?? this.#priorities.get(Object.hasOwn(usual, name.toLowerCase()) ? name.toLowerCase() : name);
    if (priority === undefined) return { refused: 'the tier is not among the objects' };
    if (priority <= LAST_ADMIN) return { value: { tier: 'Admin', priority } };
    return priority === BASELINE
      ? { value: { tier: 'Baseline', priority } }
      : { refused: `a tier of priority ${priority}: only those up to ${LAST_ADMIN}, and ${BASELINE}, have a counterpart` };
  }
}
