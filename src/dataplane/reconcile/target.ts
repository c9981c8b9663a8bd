/** What must change for the target to hold exactly the wanted state. */
export interface Plan<K, V> {
  readonly put: ReadonlyMap<K, V>;
  readonly remove: ReadonlySet<K>;
  /** Nothing of it may be seen without the rest. */
  readonly isWhole?: true;
}

/** Something that is made equal to a desired state: the flows of a bridge, the ports of a switch, the routes of a host. */
export interface Target<K, V> {
  /**
   * Resolves once it can be looked at, and whoever has to know of that knows: a look that began before would be one at what was there before. Left out: it
   * always can.
   */
  ready?(signal: AbortSignal): Promise<void>;

  /** Everything of Seine's that the target holds now. The caller owns the map. */
  observe(signal: AbortSignal): Promise<Map<K, V>>;

  /** The same, entry by entry; for targets whose entries are too many to be held twice. */
  visit?(see: (key: K, value: V) => void, signal: AbortSignal): Promise<void>;

  /**
   * Whether this, which no owner wants, was left behind by what an owner wanted: it goes, and is nobody's foreign change. Left out:
   * nothing is.
   */
  isLeftover?(key: K, value: V): boolean;

  /**
   * Whether two observations of an entry were compared with the same desired entry. Left out: what is observed does not depend on what is
   * desired.
   */
  sameDesired?(before: V, after: V): boolean;

  /**
   * Makes the change, all of it or none of it. The order inside one plan is up to the target.
   *
   * @throws SeineError `REFUSED` (nothing was changed) or `UNAVAILABLE`. After the latter the outcome is unknown:
   *   the caller observes again.
   */
  apply(plan: Plan<K, V>, signal: AbortSignal): Promise<void>;
}

/** Shows everything that a target holds, whether or not it can be held at once. */
export async function visitAll<K, V>(target: Target<K, V>, see: (key: K, value: V) => void, signal: AbortSignal): Promise<void> {
  if (target.visit) await target.visit(see, signal);
  else for (const [key, value] of await target.observe(signal)) see(key, value);
}
