import { PackedEntries, type Packing, type Place } from './packed-entries.ts';

interface DesiredStateOptions<K, V> {
  readonly equal: (a: V, b: V) => boolean;
  /** Returns the kind under which a key is counted. If omitted, keys are not counted. */
  readonly kindOf?: (key: K) => number | undefined;
  /** Reports whether an owner uses the urgent lane. If omitted, none does. */
  readonly isUrgent?: (owner: string) => boolean;
  /** Reports whether entries of other owners may refer to this owner's: its removal does not overtake their changes. If omitted, false. */
  readonly isShared?: (owner: string) => boolean;
  /** Kinds of entries that are stored as numbers while exactly one owner wants them. If omitted, none. */
  readonly packings?: readonly Packing<K, V>[];
}

interface OwnerClaim<V> {
  readonly owner: string;
  readonly value: V;
}

/** Changes since the last call of `takeDirty`. */
export interface Dirty<K> {
  readonly keys: ReadonlySet<K>;
  /** Owners whose desired entries changed or were withdrawn. */
  readonly owners: ReadonlySet<string>;
  /** Subsets of `keys` that have to change atomically, see `together`. */
  readonly groups: readonly ReadonlySet<K>[];
}

/** Number of keys that one change may still send through the urgent lane; negative once it needed more. */
export interface Allowance {
  keysLeft: number;
}

/** Maximum number of keys of non-urgent owners in the urgent lane: urgent owners wait for them. */
const OVERTAKING_MOST = 1_000;

/** Mutable form of `Dirty`, while it is collected. */
interface Changes<K> {
  readonly keys: Set<K>;
  readonly owners: Set<string>;
  readonly groups: Set<K>[];
}

/**
 * Union of the entries that all owners want, by the target's key, and the changes since the last call of `takeDirty`.
 *
 * Several owners may want one key; the entry stays until the last of them withdraws. Where their values differ, the latest claim wins, and
 * the one before is restored after it: a CIDR may move to another node, or an address to another Service, in any order of events. Owners
 * are named as in cookies, e.g. `pod/default/web-0/eth0@4f5e…`. Setting the same entries again changes nothing and marks nothing dirty.
 */
export class DesiredState<K extends string, V> {
  readonly #equal: (a: V, b: V) => boolean;
  readonly #kindOf: (key: K) => number | undefined;
  readonly #counts = new Map<number, number>();
  /** Keys by owner. Most owners want a single entry, and there are many of them. */
  readonly #byOwner = new Map<string, K | readonly K[]>();
  /** Claims by key; several claims in the order in which they were made. */
  readonly #byKey = new Map<K, OwnerClaim<V> | readonly OwnerClaim<V>[]>();
  /** Entries that are in neither `#byOwner` nor `#byKey`. */
  readonly #packed: PackedEntries<K, V>;
  readonly #isUrgent: (owner: string) => boolean;
  readonly #isShared: (owner: string) => boolean;
  /** Set while changes may overtake others. */
  #allowance: Allowance | undefined;
  /** Number of keys in the urgent lane that no urgent owner wants. */
  #overtaking = 0;
  #dirty = noChanges<K>();
  /** Group that collects the keys set now, within `together`. */
  #gathered: Set<K> | undefined;
  #urgent = noChanges<K>();
  /** Owners that changed since the follower took them; undefined without a follower. */
  #followed: Set<string> | undefined;
  #revision = 0;

  constructor({
    equal,
    kindOf = () => undefined,
    isUrgent = () => false,
    isShared = () => false,
    packings = [],
  }: DesiredStateOptions<K, V>) {
    this.#equal = equal;
    this.#kindOf = kindOf;
    this.#isUrgent = isUrgent;
    this.#isShared = isShared;
    this.#packed = new PackedEntries(packings);
  }

  /** Counter that grows by one with each change. A caller waits for its own change by waiting for this number. */
  get revision(): number {
    return this.#revision;
  }

  get size(): number {
    return this.#byKey.size + this.#packed.size;
  }

  /** Number of desired keys of each kind; updated with each change, so that reading it does not walk all keys. */
  get counts(): ReadonlyMap<number, number> {
    return this.#counts;
  }

  /** Replaces everything that `owner` wants; an empty map removes the owner. @returns the revision that contains the change */
  set(owner: string, wanted: ReadonlyMap<K, V>): number {
    return this.amend(owner, wanted, new Set(this.keysOf(owner).filter((key) => !wanted.has(key))));
  }

  /**
   * Changes a part of what `owner` wants, for an owner whose entries are too many for one turn of the event loop.
   *
   * @param more entries that it wants from now on
   * @param without keys that it no longer wants, none of them in `more`
   * @returns the revision that contains the change
   */
  amend(owner: string, more: ReadonlyMap<K, V>, without: ReadonlySet<K>): number {
    if (more.size === 0 && without.size === 0) return this.#revision;
    const had = this.keysOf(owner);
    if (had.length === 1) for (const key of had) this.#unpack(key); // only an owner of a single entry is packed
    for (const key of more.keys()) this.#unpack(key);
    const changed: K[] = [];
    const added: K[] = [];
    for (const key of without) if (this.#release(key, owner)) changed.push(key);
    for (const [key, value] of more) {
      if (!this.#isClaimed(key, owner)) added.push(key);
      if (this.#claim(key, owner, value)) changed.push(key);
    }
    const rest = without.size === 0 ? had : had.filter((key) => !without.has(key));
    const keys = added.length === 0 ? rest : [...rest, ...added];
    const [first] = keys;
    if (first === undefined) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, keys.length === 1 ? first : keys);
    for (const key of without) this.#pack(key);
    for (const key of keys.length === 1 ? keys : more.keys()) this.#pack(key);
    return this.#changed(owner, changed);
  }

  /** Like `set`, for the single entry of an owner of this kind. @param owner of the place */
  setPacked(owner: string, packing: Packing<K, V>, place: Place, number: number): number {
    const key = packing.keyOf(place);
    if (this.#byOwner.has(owner) || this.#byKey.has(key)) return this.set(owner, new Map([[key, packing.valueOf(place, number)]]));
    const before = this.#packed.setNumber(packing, place, number);
    if (before === number) return this.#revision;
    if (before === undefined) this.#count(key, 1);
    return this.#changed(owner, [key]);
  }

  #changed(owner: string, changed: readonly K[]): number {
    if (changed.length === 0) return this.#revision;
    this.#followed?.add(owner);
    const dirty = this.#isUrgent(owner) || this.#mayOvertake(owner, changed.length) ? this.#urgent : this.#dirty;
    for (const key of changed) {
      dirty.keys.add(key);
      this.#gathered?.add(key);
    }
    dirty.owners.add(owner);
    return ++this.#revision;
  }

  forget(owner: string): number {
    return this.set(owner, new Map());
  }

  /**
   * Lets changes made by `work` overtake those of other owners that wait to be written, up to `allowance`. The rest is written in order of
   * request.
   */
  overtaking<T>(allowance: Allowance, work: () => T): T {
    const before = this.#allowance;
    this.#allowance = allowance;
    try {
      return work();
    } finally {
      this.#allowance = before;
    }
  }

  /** Within `overtaking`: lets waiting entries of `owner` overtake others too, since later changes refer to them. */
  bringAlong(owner: string): void {
    const keys = this.keysOf(owner);
    if (!this.#isUrgent(owner) && this.#mayOvertake(owner, keys.length)) for (const key of keys) this.#urgent.keys.add(key);
  }

  /** Deducts from the allowance. @returns whether these keys may overtake */
  #mayOvertake(owner: string, keys: number): boolean {
    const allowance = this.#allowance;
    if (allowance === undefined || allowance.keysLeft < 0) return false;
    allowance.keysLeft -= keys;
    if (this.#isShared(owner) && !this.has(owner)) return false;
    if (allowance.keysLeft < 0 || this.#overtaking + keys > OVERTAKING_MOST) {
      allowance.keysLeft = -1;
      return false;
    }
    this.#overtaking += keys;
    return true;
  }

  /** Applies all changes made by `work` atomically: no intermediate state is visible on the target. Not for urgent owners. */
  together(work: () => void): void {
    const group = new Set<K>();
    this.#gathered = group;
    try {
      work();
    } finally {
      this.#gathered = undefined;
    }
    if (group.size > 0) this.#dirty.groups.push(group);
  }

  /** Begins to collect owners whose entries change, for one follower. @returns a function that takes them */
  followOwners(): () => ReadonlySet<string> {
    this.#followed = new Set();
    return () => {
      const taken = this.#followed ?? new Set();
      this.#followed = new Set();
      return taken;
    };
  }

  /** Groups of keys from `together`, since the last call of `takeDirty`. */
  get groups(): readonly ReadonlySet<K>[] {
    return this.#dirty.groups;
  }

  /** Returns the desired value of `key`; `undefined` if no owner wants it. */
  wanted(key: K): V | undefined {
    const claims = this.#byKey.get(key);
    return claims === undefined ? this.#packed.get(key) : winner(claims).value;
  }

  *keys(): IterableIterator<K> {
    yield* this.#packed.keys();
    yield* this.#byKey.keys();
  }

  /** Reports whether `owner` wants anything. */
  has(owner: string): boolean {
    return this.#byOwner.has(owner) || this.#packed.keyOf(owner) !== undefined;
  }

  *owners(): IterableIterator<string> {
    yield* this.#packed.owners();
    yield* this.#byOwner.keys();
  }

  /** Returns the owners that want the current value of `key`, in the order of their claims. */
  ownersOf(key: K): readonly string[] {
    const claims = this.#byKey.get(key);
    if (claims === undefined) {
      const owner = this.#packed.ownerOf(key);
      return owner === undefined ? [] : [owner];
    }
    if (!isMany(claims)) return [claims.owner];
    const { value } = winner(claims);
    return claims.filter((claim) => this.#equal(claim.value, value)).map(({ owner }) => owner);
  }

  /** Returns other owners that want a different value for a key of `owner`, each once. */
  conflictingOwners(owner: string): readonly string[] {
    const conflicting = new Set<string>();
    for (const key of this.keysOf(owner)) {
      const claims = this.#byKey.get(key);
      if (claims === undefined || !isMany(claims)) continue;
      const mine = claims.find((claim) => claim.owner === owner);
      for (const claim of claims) if (mine && !this.#equal(claim.value, mine.value)) conflicting.add(claim.owner);
    }
    return [...conflicting];
  }

  /** Keys for which several owners want different values, each with the owner whose value is in effect. Walks all keys. */
  *disputed(): Generator<readonly [key: K, owner: string]> {
    for (const [key, claims] of this.#byKey) {
      const { owner, value } = winner(claims);
      if (isMany(claims) && claims.some((claim) => !this.#equal(claim.value, value))) yield [key, owner];
    }
  }

  keysOf(owner: string): readonly K[] {
    const keys = this.#byOwner.get(owner) ?? this.#packed.keyOf(owner);
    if (keys === undefined) return [];
    return typeof keys === 'string' ? [keys] : keys;
  }

  /** Reports whether the desired value of this key changed since the last call of `takeDirty`. */
  isDirty(key: K): boolean {
    return this.#dirty.keys.has(key) || this.#urgent.keys.has(key);
  }

  /** Returns all changes since the last call, urgent or not, and forgets them: the caller has to apply them. */
  takeDirty(): Dirty<K> {
    const [taken, urgent] = [this.#dirty, this.takeUrgent()];
    this.#dirty = noChanges();
    if (urgent === undefined) return taken;
    for (const key of urgent.keys) taken.keys.add(key);
    for (const owner of urgent.owners) taken.owners.add(owner);
    return taken;
  }

  /** Reports whether the urgent lane has changes. */
  get hasUrgent(): boolean {
    return this.#urgent.keys.size > 0;
  }

  /** Like `takeDirty`, for the urgent lane only; undefined if it is empty. */
  takeUrgent(): Dirty<K> | undefined {
    if (!this.hasUrgent) return undefined;
    const taken = this.#urgent;
    this.#urgent = noChanges();
    this.#overtaking = 0;
    return taken;
  }

  #isClaimed(key: K, owner: string): boolean {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return false;
    return isMany(claims) ? claims.some((claim) => claim.owner === owner) : claims.owner === owner;
  }

  /** @returns whether the desired value of the key changed */
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

  /** @returns whether the owner had a claim; the desired value may be unchanged */
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

  /** Unpacks a key. Call before it is claimed or released. */
  #unpack(key: K): void {
    const [owner, value] = [this.#packed.ownerOf(key), this.#packed.get(key)];
    if (owner === undefined || value === undefined) return;
    this.#packed.delete(key);
    this.#byOwner.set(owner, key);
    this.#byKey.set(key, { owner, value });
  }

  /** Packs a key if exactly one owner wants it, with a single claim and no other keys. */
  #pack(key: K): void {
    const claims = this.#byKey.get(key);
    if (claims === undefined || isMany(claims) || this.#byOwner.get(claims.owner) !== key) return;
    if (!this.#packed.set(key, claims.value, claims.owner)) return;
    this.#byOwner.delete(claims.owner);
    this.#byKey.delete(key);
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
  return { keys: new Set(), owners: new Set(), groups: [] };
}

function winner<V>(claims: OwnerClaim<V> | readonly OwnerClaim<V>[]): OwnerClaim<V> {
  return isMany(claims) ? (claims.at(-1) as OwnerClaim<V>) : claims; // never an empty list
}

function isMany<V>(claims: OwnerClaim<V> | readonly OwnerClaim<V>[]): claims is readonly OwnerClaim<V>[] {
  return Array.isArray(claims);
}
