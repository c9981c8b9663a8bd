export interface DesiredStateOptions<K, V> {
  readonly equal: (a: V, b: V) => boolean;
  /** Which keys are counted together; left out: none are counted. */
  readonly kindOf?: (key: K) => number | undefined;
  /** Whose wishes come before those of thousands of others; left out: nobody's. */
  readonly isUrgent?: (owner: string) => boolean;
}

interface Claim<V> {
  readonly owner: string;
  readonly value: V;
}

/** What changed since somebody last asked. */
export interface Dirty<K> {
  readonly keys: ReadonlySet<K>;
  /** Those who now wish for something else, or for nothing. */
  readonly owners: ReadonlySet<string>;
}

/** As it is collected. */
interface Changes<K> {
  readonly keys: Set<K>;
  readonly owners: Set<string>;
}

/**
 * The union of what all owners want, keyed as the target keys it, and what changed since somebody last asked.
 *
 * Several owners may ask for one key; the entry stays until the last of them lets go. Where they want it otherwise, whoever
 * asked last has its way, and the one before gets it back after that: a CIDR may move to another node, or an address to
 * another Service, in any order of news. Owners are named as in cookies, e.g. `pod/default/web-0/eth0@4f5e…`. Asking again
 * for the same thing changes nothing and makes nothing dirty.
 */
export class DesiredState<K extends string, V> {
  readonly #equal: (a: V, b: V) => boolean;
  readonly #kindOf: (key: K) => number | undefined;
  readonly #counts = new Map<number, number>();
  /** Most owners want a single entry, and there are many of them. */
  readonly #byOwner = new Map<string, K | readonly K[]>();
  /** Several claims are in the order in which they were made. */
  readonly #byKey = new Map<K, Claim<V> | readonly Claim<V>[]>();
  readonly #isUrgent: (owner: string) => boolean;
  #dirty = noChanges<K>();
  #urgent = noChanges<K>();
  #revision = 0;

  constructor({ equal, kindOf = () => undefined, isUrgent = () => false }: DesiredStateOptions<K, V>) {
    this.#equal = equal;
    this.#kindOf = kindOf;
    this.#isUrgent = isUrgent;
  }

  /** Grows by one with every change. A caller waits for its own change by waiting for this number. */
  get revision(): number {
    return this.#revision;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** How many keys of each kind are wanted, kept with every change: nobody walks through all of them to know. */
  get counts(): ReadonlyMap<number, number> {
    return this.#counts;
  }

  /** Replaces everything `owner` wants; an empty map removes the owner. Returns the revision that contains it. */
  set(owner: string, wanted: ReadonlyMap<K, V>): number {
    const had = this.keysOf(owner);
    if (had.length === 0 && wanted.size === 0) return this.#revision;
    const changed: K[] = [];
    for (const key of had) if (!wanted.has(key) && this.#release(key, owner)) changed.push(key);
    for (const [key, value] of wanted) if (this.#claim(key, owner, value)) changed.push(key);
    const [only, ...others] = wanted.keys();
    if (only === undefined) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, others.length === 0 ? only : [only, ...others]);
    if (changed.length === 0) return this.#revision;
    const dirty = this.#isUrgent(owner) ? this.#urgent : this.#dirty;
    for (const key of changed) dirty.keys.add(key);
    dirty.owners.add(owner);
    return ++this.#revision;
  }

  forget(owner: string): number {
    return this.set(owner, new Map());
  }

  /** What the target shall hold under `key`; `undefined` if nobody wants it. */
  wanted(key: K): V | undefined {
    const claims = this.#byKey.get(key);
    return claims === undefined ? undefined : winner(claims).value;
  }

  keys(): IterableIterator<K> {
    return this.#byKey.keys();
  }

  /** Whether `owner` wants anything. */
  has(owner: string): boolean {
    return this.#byOwner.has(owner);
  }

  owners(): IterableIterator<string> {
    return this.#byOwner.keys();
  }

  /** Whoever wants `key` as it shall be, in the order they asked. */
  ownersOf(key: K): readonly string[] {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return [];
    if (!isMany(claims)) return [claims.owner];
    const { value } = winner(claims);
    return claims.filter((claim) => this.#equal(claim.value, value)).map(({ owner }) => owner);
  }

  /** Others who want something of what `owner` wants otherwise, each once. */
  rivalsOf(owner: string): readonly string[] {
    const rivals = new Set<string>();
    for (const key of this.keysOf(owner)) {
      const claims = this.#byKey.get(key);
      if (claims === undefined || !isMany(claims)) continue;
      const mine = claims.find((claim) => claim.owner === owner);
      for (const claim of claims) if (mine && !this.#equal(claim.value, mine.value)) rivals.add(claim.owner);
    }
    return [...rivals];
  }

  /** Keys that several owners want, each otherwise, with whoever has its way. Looks at every key. */
  *disputed(): Generator<readonly [key: K, owner: string]> {
    for (const [key, claims] of this.#byKey) {
      const { owner, value } = winner(claims);
      if (isMany(claims) && claims.some((claim) => !this.#equal(claim.value, value))) yield [key, owner];
    }
  }

  keysOf(owner: string): readonly K[] {
    const keys = this.#byOwner.get(owner);
    if (keys === undefined) return [];
    return typeof keys === 'string' ? [keys] : keys;
  }

  /** What changed since the last call, urgent or not. The caller now answers for it. */
  takeDirty(): Dirty<K> {
    const [taken, urgent] = [this.#dirty, this.takeUrgent()];
    this.#dirty = noChanges();
    if (urgent === undefined) return taken;
    for (const key of urgent.keys) taken.keys.add(key);
    for (const owner of urgent.owners) taken.owners.add(owner);
    return taken;
  }

  /** As `takeDirty`, of those who are urgent; undefined if nothing is. */
  takeUrgent(): Dirty<K> | undefined {
    if (this.#urgent.owners.size === 0) return undefined;
    const taken = this.#urgent;
    this.#urgent = noChanges();
    return taken;
  }

  /** True if the key is now wanted otherwise than before. */
  #claim(key: K, owner: string, value: V): boolean {
    const claims = this.#byKey.get(key);
    if (claims === undefined) {
      this.#byKey.set(key, { owner, value });
      this.#count(key, 1);
      return true;
    }
    const all = isMany(claims) ? claims : [claims];
    const mine = all.find((claim) => claim.owner === owner);
    if (mine && this.#equal(mine.value, value)) return false;
    const rest = all.filter((claim) => claim !== mine);
    this.#byKey.set(key, rest.length === 0 ? { owner, value } : [...rest, { owner, value }]);
    return true;
  }

  /** True if the owner had a claim; what shall be may still be the same. */
  #release(key: K, owner: string): boolean {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return false;
    const rest = (isMany(claims) ? claims : [claims]).filter((claim) => claim.owner !== owner);
    const [first] = rest;
    if (first === undefined) {
      this.#byKey.delete(key);
      this.#count(key, -1);
    } else this.#byKey.set(key, rest.length === 1 ? first : rest);
    return true;
  }

  #count(key: K, by: 1 | -1): void {
    const kind = this.#kindOf(key);
    if (kind === undefined) return;
    const count = (this.#counts.get(kind) ?? 0) + by;
    if (count === 0) this.#counts.delete(kind);
    else this.#counts.set(kind, count);
  }
}

function noChanges<K>(): Changes<K> {
  return { keys: new Set(), owners: new Set() };
}

function winner<V>(claims: Claim<V> | readonly Claim<V>[]): Claim<V> {
  return isMany(claims) ? (claims.at(-1) as Claim<V>) : claims; // never an empty list
}

function isMany<V>(claims: Claim<V> | readonly Claim<V>[]): claims is readonly Claim<V>[] {
  return Array.isArray(claims);
}
