/** Changes that make a target equal to the desired state. */
export interface Plan<K, V> {
  readonly put: ReadonlyMap<K, V>;
  readonly remove: ReadonlySet<K>;
  /** Set if no intermediate state may be visible. */
  readonly isWhole?: true;
}

/** Something that is made equal to a desired state: the flows of a bridge, the ports of OVS, the routes of a host. */
export interface Target<K, V> {
  /**
   * Resolves once the target can be observed and its listeners have been notified: an observation begun earlier would see the previous
   * content. If omitted, the target is always ready.
   */
  ready?(signal: AbortSignal): Promise<void>;

  /** Returns all entries of Seine's in the target. The caller owns the map. */
  observe(signal: AbortSignal): Promise<Map<K, V>>;

  /** The same, entry by entry; for targets with too many entries to be copied. */
  visit?(see: (key: K, value: V) => void, signal: AbortSignal): Promise<void>;

  /**
   * Reports whether this entry, which no owner wants, was left behind by a desired one: it is removed, and is not a foreign change. If
   * omitted, none is.
   */
  isLeftover?(key: K, value: V): boolean;

  /**
   * Reports whether two observations of an entry were compared with the same desired entry. If omitted, observations do not depend on the
   * desired state.
   */
  sameDesired?(before: V, after: V): boolean;

  /**
   * Applies the plan completely or not at all. The target chooses the order within a plan.
   *
   * @throws SeineError `REFUSED` (nothing was changed) or `UNAVAILABLE`. After the latter the outcome is unknown: the caller observes
   * again.
   */
  apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void>;
}

/** Visits all entries of a target, with `visit` if it has that and `observe` otherwise. */
export async function visitAll<K, V>(target: Target<K, V>, see: (key: K, value: V) => void, signal: AbortSignal): Promise<void> {
  if (target.visit) await target.visit(see, signal);
  else for (const [key, value] of await target.observe(signal)) see(key, value);
}
