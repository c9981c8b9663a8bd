/**
 * Part of an entry that distinguishes it within its kind: for an IPv4 address its 32 bits, signed; for any other address its bytes as a
 * string.
 */
export type Place = number | string;

/**
 * Kind of entry that is numerous and has one owner per entry: key and owner follow from a place, and the value from place and number. Place
 * and number are stored instead of three strings.
 */
export interface Packing<K, V> {
  /** Undefined if the key does not belong to an entry of this kind. */
  placeOfKey(key: K): Place | undefined;
  placeOfOwner(owner: string): Place | undefined;
  ownerOf(place: Place): string;
  keyOf(place: Place): K;
  valueOf(place: Place, number: number): V;
  /** Undefined if no number gives this value. */
  numberIn(place: Place, value: V): number | undefined;
}

/** Store for entries of some kinds only. */
export class PackedEntries<K, V> {
  readonly #tables: readonly { readonly packing: Packing<K, V>; readonly numbers: Map<Place, number> }[];

  constructor(packings: readonly Packing<K, V>[]) {
    this.#tables = packings.map((packing) => ({ packing, numbers: new Map<Place, number>() }));
  }

  get size(): number {
    let size = 0;
    for (const { numbers } of this.#tables) size += numbers.size;
    return size;
  }

  get(key: K): V | undefined {
    for (const { packing, numbers } of this.#tables) {
      const place = numbers.size === 0 ? undefined : packing.placeOfKey(key);
      const number = place === undefined ? undefined : numbers.get(place);
      if (place !== undefined && number !== undefined) return packing.valueOf(place, number);
    }
    return undefined;
  }

  has(key: K): boolean {
    return this.ownerOf(key) !== undefined;
  }

  /** Returns the owner of a stored entry. */
  ownerOf(key: K): string | undefined {
    for (const { packing, numbers } of this.#tables) {
      const place = numbers.size === 0 ? undefined : packing.placeOfKey(key);
      if (place !== undefined && numbers.has(place)) return packing.ownerOf(place);
    }
    return undefined;
  }

  /** Returns the key of a stored entry. */
  keyOf(owner: string): K | undefined {
    for (const { packing, numbers } of this.#tables) {
      const place = numbers.size === 0 ? undefined : packing.placeOfOwner(owner);
      if (place !== undefined && numbers.has(place)) return packing.keyOf(place);
    }
    return undefined;
  }

  /** @param owner if known; otherwise read from the value @returns whether the entry is of one of the kinds; otherwise it is not stored */
  set(key: K, value: V, owner?: string): boolean {
    for (const { packing, numbers } of this.#tables) {
      const place = packing.placeOfKey(key);
      if (place === undefined) continue;
      const number = owner === undefined || owner === packing.ownerOf(place) ? packing.numberIn(place, value) : undefined;
      if (number === undefined) return false;
      numbers.set(place, number);
      return true;
    }
    return false;
  }

  /** @returns the previous number @throws RangeError if the kind is not one of this store's */
  setNumber(packing: Packing<K, V>, place: Place, number: number): number | undefined {
    const numbers = this.#tables.find((table) => table.packing === packing)?.numbers;
    if (!numbers) throw new RangeError('a packing that is not one of these');
    const before = numbers.get(place);
    if (before !== number) numbers.set(place, number);
    return before;
  }

  delete(key: K): boolean {
    for (const { packing, numbers } of this.#tables) {
      const place = numbers.size === 0 ? undefined : packing.placeOfKey(key);
      if (place !== undefined) return numbers.delete(place);
    }
    return false;
  }

  *keys(): MapIterator<K> {
    for (const { packing, numbers } of this.#tables) for (const place of numbers.keys()) yield packing.keyOf(place);
  }

  *owners(): MapIterator<string> {
    for (const { packing, numbers } of this.#tables) for (const place of numbers.keys()) yield packing.ownerOf(place);
  }

  *entries(): MapIterator<[K, V]> {
    for (const { packing, numbers } of this.#tables)
      for (const [place, number] of numbers) yield [packing.keyOf(place), packing.valueOf(place, number)];
  }

  clear(): void {
    for (const { numbers } of this.#tables) numbers.clear();
  }
}

/**
 * Map that stores entries of some kinds packed. These are iterated last: a search for another entry does not create strings for them first.
 */
export class PackedMap<K, V> implements Map<K, V> {
  readonly [Symbol.toStringTag] = 'PackedMap';
  readonly #packed: PackedEntries<K, V>;
  readonly #others = new Map<K, V>();

  constructor(packings: readonly Packing<K, V>[]) {
    this.#packed = new PackedEntries(packings);
  }

  get size(): number {
    return this.#packed.size + this.#others.size;
  }

  get(key: K): V | undefined {
    return this.#others.get(key) ?? this.#packed.get(key);
  }

  has(key: K): boolean {
    return this.#others.has(key) || this.#packed.has(key);
  }

  set(key: K, value: V): this {
    if (this.#packed.set(key, value)) this.#others.delete(key);
    else {
      this.#packed.delete(key);
      this.#others.set(key, value);
    }
    return this;
  }

  delete(key: K): boolean {
    return this.#packed.delete(key) || this.#others.delete(key);
  }

  clear(): void {
    this.#packed.clear();
    this.#others.clear();
  }

  forEach(callback: (value: V, key: K, map: Map<K, V>) => void): void {
    for (const [key, value] of this) callback(value, key, this);
  }

  *keys(): MapIterator<K> {
    yield* this.#others.keys();
    yield* this.#packed.keys();
  }

  *values(): MapIterator<V> {
    for (const [, value] of this) yield value;
  }

  *entries(): MapIterator<[K, V]> {
    yield* this.#others.entries();
    yield* this.#packed.entries();
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries();
  }
}
