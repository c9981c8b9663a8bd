/** Maximum number of repairs that are kept, and of owners of each. */
const REPAIRS_MAX = 200;
const OWNERS_MAX = 300;
/** Maximum number of entries of a repair whose owners are looked up. */
const KEYS_MAX = 3_000;

/** Repair of an entry or interface after a foreign change. */
interface Repair {
  readonly at: Date;
  /** Target, or `interface`. */
  readonly what: string;
  /** Number of entries of all owners together. */
  readonly entries: number;
  /** Number of entries that each owner desired. */
  readonly owners: ReadonlyMap<string, number>;
  /** True if there were more owners than are kept. */
  readonly more: boolean;
}

/** Last repairs with their owners, for `seinectl explain pod`. */
export class RepairHistory {
  readonly #repairs: Repair[] = [];

  /** @param ownersOf current owners of an entry */
  note<K>(what: string, keys: readonly K[], ownersOf: (key: K) => readonly string[]): void {
    const owners = new Map<string, number>();
    let more = keys.length > KEYS_MAX;
    for (const key of keys.slice(0, KEYS_MAX))
      for (const owner of ownersOf(key)) {
        if (owners.has(owner) || owners.size < OWNERS_MAX) owners.set(owner, (owners.get(owner) ?? 0) + 1);
        else more = true;
      }
    this.#repairs.push({ at: new Date(), what, entries: keys.length, owners, more });
    if (this.#repairs.length > REPAIRS_MAX) this.#repairs.shift();
  }

  /** Oldest first; also those that may have affected it. */
  of(owner: string): readonly Repair[] {
    return this.#repairs.filter(({ owners, more }) => owners.has(owner) || more);
  }
}
