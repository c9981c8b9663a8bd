/** So many repairs are remembered, each with so many owners. */
const REPAIRS_MAX = 200;
const OWNERS_MAX = 300;
/** Of one repair, so many entries are looked at for their owners. */
const KEYS_MAX = 3_000;

/** An entry or interface that was repaired after a foreign change. */
interface Repair {
  readonly at: Date;
  /** What of the node: a part of it, or `interface`. */
  readonly what: string;
  /** Of all owners together. */
  readonly entries: number;
  /** How many of them each owner wanted. */
  readonly owners: ReadonlyMap<string, number>;
  /** There were more owners than are remembered. */
  readonly more: boolean;
}

/** The last repairs with their owners, for `seinectl explain pod`. */
export class RepairHistory {
  readonly #repairs: Repair[] = [];

  /** @param ownersOf the owners that want an entry now */
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

  /** Oldest first; also those in which it may have had a part. */
  of(owner: string): readonly Repair[] {
    return this.#repairs.filter(({ owners, more }) => owners.has(owner) || more);
  }
}
