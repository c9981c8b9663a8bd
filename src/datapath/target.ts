/** What must change for the target to hold exactly what is wanted. */
export interface Plan<K, V> {
  readonly put: ReadonlyMap<K, V>;
  readonly remove: ReadonlySet<K>;
}

/** Something we make match a desired state: the flows of a bridge, the ports of a switch, the routes of a host. */
export interface Target<K, V> {
  /** Everything of ours that the target holds now. The caller owns the map. */
  observe(signal: AbortSignal): Promise<Map<K, V>>;

  /**
   * Makes the change, all of it or none of it. Order inside one plan is the target's business.
   *
   * @throws SeineError `REFUSED` (nothing was changed) or `UNAVAILABLE`. After the latter nobody knows whether the change was
   *   made: the caller observes again.
   */
  apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void>;
}
