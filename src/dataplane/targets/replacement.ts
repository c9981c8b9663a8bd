import type { Wanted } from '../desired/host-entries.ts';
import type { Owner } from '../pipeline/cookie.ts';
import type { LearnStep } from '../pipeline/flow.ts';
import type { DesiredState } from '../reconcile/desired-state.ts';
import { depthOfKey, encodeBridgeEntries } from './bridge/bridge-entry.ts';
import { type LearnedFlows, learnStepsOf } from './bridge/learned-flows.ts';
import type { FirewallKey } from './host/firewall-target.ts';
import { hostEntries } from './host/host-entry.ts';
import type { DesiredParts, PartReconcilers } from './target-options.ts';

/** Maximum number of entries that are withdrawn in one step. */
const WITHDRAWN_AT_ONCE = 2_000;

interface ReplacedState extends Pick<DesiredParts, 'bridge' | 'host' | 'firewall'> {
  readonly learned: Pick<LearnedFlows, 'declareSteps' | 'stepsOf'>;
  readonly reconcilers: Pick<PartReconcilers, 'bridge' | 'host' | 'firewall'>;
}

/**
 * Replaces the entries of one owner on bridge, host and nftables in steps, for an owner of tens of thousands: setting them at once would
 * block the event loop. New entries are added before obsolete ones are withdrawn, and these are withdrawn in the order of a packet's path.
 */
export class Replacement {
  readonly #state: ReplacedState;
  readonly #owner: Owner;
  readonly #bridge: PartReplacement<PartKey<'bridge'>, PartValue<'bridge'>>;
  readonly #host: PartReplacement<PartKey<'host'>, PartValue<'host'>>;
  readonly #firewall: PartReplacement<PartKey<'firewall'>, PartValue<'firewall'>>;
  #steps: readonly LearnStep[] = [];

  constructor(state: ReplacedState, owner: Owner) {
    const { bridge, host, firewall, reconcilers } = state;
    this.#state = state;
    this.#owner = owner;
    this.#bridge = new PartReplacement(owner, bridge, reconcilers.bridge);
    this.#host = new PartReplacement(owner, host, reconcilers.host);
    this.#firewall = new PartReplacement(owner, firewall, reconcilers.firewall);
  }

  /** Adds entries that the owner wants from now on. */
  add(wanted: Wanted, elements: ReadonlyMap<FirewallKey, string>): void {
    this.#declare(learnStepsOf(wanted.flows));
    this.#bridge.add(encodeBridgeEntries(this.#owner, wanted));
    this.#host.add(hostEntries(wanted));
    this.#firewall.add(elements);
  }

  /** Withdraws the owner's other entries; yields after each step. */
  *finish(): Generator<void> {
    yield* this.#firewall.withdrawOthers(() => 0);
    yield* this.#host.withdrawOthers(() => 0);
    yield* this.#bridge.withdrawOthers(depthOfKey);
    this.#state.learned.declareSteps(this.#owner, this.#steps);
  }

  /** Declares learn steps before OVS has their flows. Those of the owner's other entries stay declared until these are withdrawn. */
  #declare(more: readonly LearnStep[]): void {
    if (more.length === 0) return;
    const { learned } = this.#state;
    this.#steps = [...this.#steps, ...more];
    learned.declareSteps(this.#owner, [...learned.stepsOf(this.#owner), ...more]);
  }
}

type PartKey<P extends 'bridge' | 'host' | 'firewall'> = DesiredParts[P] extends DesiredState<infer K, infer _> ? K : never;
type PartValue<P extends 'bridge' | 'host' | 'firewall'> = DesiredParts[P] extends DesiredState<infer _, infer V> ? V : never;

/** The same for one target. */
class PartReplacement<K extends string, V> {
  readonly #owner: Owner;
  readonly #desired: DesiredState<K, V>;
  readonly #reconciler: { poke(): void };
  readonly #kept = new Set<K>();

  constructor(owner: Owner, desired: DesiredState<K, V>, reconciler: { poke(): void }) {
    this.#owner = owner;
    this.#desired = desired;
    this.#reconciler = reconciler;
  }

  add(entries: ReadonlyMap<K, V>): void {
    for (const key of entries.keys()) this.#kept.add(key);
    this.#amend(entries, new Set());
  }

  /** @param orderOf keys of a lower order are withdrawn first */
  *withdrawOthers(orderOf: (key: K) => number): Generator<void> {
    const others = this.#desired.keysOf(this.#owner).filter((key) => !this.#kept.has(key));
    const byOrder = [...Map.groupBy(others, orderOf)].toSorted(([a], [b]) => a - b).flatMap(([, keys]) => keys);
    for (let at = 0; at < byOrder.length; at += WITHDRAWN_AT_ONCE) {
      this.#amend(new Map(), new Set(byOrder.slice(at, at + WITHDRAWN_AT_ONCE)));
      yield;
    }
  }

  #amend(more: ReadonlyMap<K, V>, without: ReadonlySet<K>): void {
    const { revision } = this.#desired;
    if (this.#desired.amend(this.#owner, more, without) !== revision) this.#reconciler.poke();
  }
}
