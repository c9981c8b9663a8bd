import { SeineError } from '../errors/seine-error.ts';

export interface DesiredStateOptions<V> {
  readonly equal: (a: V, b: V) => boolean;
  /** What the target should hold when several owners ask for one key. Default: they must agree. */
  readonly merge?: (values: readonly V[]) => V;
}

interface Claim<V> {
  readonly owner: string;
  readonly value: V;
}

/**
 * The union of what all owners want, keyed as the target keys it, and which keys changed since somebody last asked.
 *
 * Several owners may ask for one key; the entry stays until the last of them lets go. Owners are named as in cookies, e.g.
 * `pod/default/web-0/eth0@4f5e…`. Asking again for the same thing changes nothing and makes nothing dirty.
 */
export class DesiredState<K extends string, V> {
  readonly #equal: (a: V, b: V) => boolean;
  readonly #merge: (values: readonly V[]) => V;
  readonly #byOwner = new Map<string, readonly K[]>();
  readonly #byKey = new Map<K, Claim<V> | readonly Claim<V>[]>();
  #dirty = new Set<K>();
  #revision = 0;

  constructor({ equal, merge }: DesiredStateOptions<V>) {
    this.#equal = equal;
    this.#merge = merge ?? ((values) => this.#onlyEqual(values));
  }

  /** Grows by one with every change. A caller waits for its own change by waiting for this number. */
  get revision(): number {
    return this.#revision;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /**
   * Replaces everything `owner` wants; an empty map removes the owner. Returns the revision that contains it.
   *
   * @throws SeineError `INVARIANT` if another owner wants one of the keys otherwise; nothing is changed then
   */
  set(owner: string, wanted: ReadonlyMap<K, V>): number {
    for (const [key, value] of wanted) this.#checkAgreement(key, owner, value);
    const changed: K[] = [];
    for (const key of this.#byOwner.get(owner) ?? []) {
      if (!wanted.has(key) && this.#release(key, owner)) changed.push(key);
    }
    for (const [key, value] of wanted) if (this.#claim(key, owner, value)) changed.push(key);
    if (wanted.size === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, [...wanted.keys()]);
    for (const key of changed) this.#dirty.add(key);
    return changed.length === 0 ? this.#revision : ++this.#revision;
  }

  forget(owner: string): number {
    return this.set(owner, new Map());
  }

  /** What the target shall hold under `key`; `undefined` if nobody wants it. */
  wanted(key: K): V | undefined {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return undefined;
    return isMany(claims) ? this.#merge(claims.map(({ value }) => value)) : claims.value;
  }

  keys(): IterableIterator<K> {
    return this.#byKey.keys();
  }

  owners(): IterableIterator<string> {
    return this.#byOwner.keys();
  }

  /** Whoever wants `key`, in the order they asked. */
  ownersOf(key: K): readonly string[] {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return [];
    return isMany(claims) ? claims.map(({ owner }) => owner) : [claims.owner];
  }

  keysOf(owner: string): readonly K[] {
    return this.#byOwner.get(owner) ?? [];
  }

  /** Keys that changed since the last call. The caller now answers for them. */
  takeDirty(): ReadonlySet<K> {
    const taken = this.#dirty;
    this.#dirty = new Set();
    return taken;
  }

  /** True if the key is now wanted otherwise than before. */
  #claim(key: K, owner: string, value: V): boolean {
    const claims = this.#byKey.get(key);
    if (claims === undefined) {
      this.#byKey.set(key, { owner, value });
      return true;
    }
    const all = isMany(claims) ? claims : [claims];
    const mine = all.find((claim) => claim.owner === owner);
    if (mine && this.#equal(mine.value, value)) return false;
    const rest = all.filter((claim) => claim !== mine);
    this.#byKey.set(key, rest.length === 0 ? { owner, value } : [...rest, { owner, value }]);
    return true;
  }

  /** Owners agree today, so a release changes the entry only when the last one lets go; with `merge`, always. */
  #release(key: K, owner: string): boolean {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return false;
    const rest = (isMany(claims) ? claims : [claims]).filter((claim) => claim.owner !== owner);
    const [first] = rest;
    if (first === undefined) this.#byKey.delete(key);
    else this.#byKey.set(key, rest.length === 1 ? first : rest);
    return true;
  }

  #checkAgreement(key: K, owner: string, value: V): void {
    const claims = this.#byKey.get(key);
    if (claims === undefined) return;
    const others = (isMany(claims) ? claims : [claims]).filter((claim) => claim.owner !== owner).map((claim) => claim.value);
    if (others.length > 0) this.#merge([...others, value]);
  }

  #onlyEqual(values: readonly V[]): V {
    const [first, ...rest] = values as [V, ...V[]];
    if (rest.some((value) => !this.#equal(first, value))) throw new SeineError('INVARIANT', 'two owners want one entry otherwise');
    return first;
  }
}

function isMany<V>(claims: Claim<V> | readonly Claim<V>[]): claims is readonly Claim<V>[] {
  return Array.isArray(claims);
}
