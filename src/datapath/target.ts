/** What must change for the target to hold exactly what is wanted. */
export interface Plan<K, V> {
  readonly put: ReadonlyMap<K, V>;
  readonly remove: ReadonlySet<K>;
}

/** Something we make match a desired state: the flows of a bridge, the ports of a switch, the routes of a host. */
export interface Target<K, V> {
  /** Everything of ours that the target holds now. The caller owns the map. */
  observe(signal: AbortSignal): Promise<Map<K, V>>;

  /** The same, entry by entry; for targets whose entries are too many to be held twice. */
  visit?(see: (key: K, value: V) => void, signal: AbortSignal): Promise<void>;

  /**
   * Makes the change, all of it or none of it. Order inside one plan is the target's business.
   *
   * @throws SeineError `REFUSED` (nothing was changed) or `UNAVAILABLE`. After the latter nobody knows whether the change was
   *   made: the caller observes again.
   */
  apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void>;
}

/** Shows everything that a target holds, whether or not it can be held at once. */
export async function visitAll<K, V>(target: Target<K, V>, see: (key: K, value: V) => void, signal: AbortSignal): Promise<void> {
  if (target.visit) await target.visit(see, signal);
  else for (const [key, value] of await target.observe(signal)) see(key, value);
}
