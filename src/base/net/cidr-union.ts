import { addressBits, type Cidr, cidrOf, type Family, ipFromValue } from './ip.ts';

/**
 * Union of many networks: the smallest number of networks that cover exactly the same addresses. A change takes as many steps as a prefix
 * has bits, regardless of the number of networks, unless some contain others.
 */
export class CidrUnion {
  readonly #ofFamily: Readonly<Record<Family, FamilyUnion>> = { ipv4: new FamilyUnion('ipv4'), ipv6: new FamilyUnion('ipv6') };

  add(cidr: Cidr): void {
    this.#ofFamily[cidr.family].add(blockOf(cidr));
  }

  /** Removes one reference; each `add` needs its own `remove`. */
  remove(cidr: Cidr): void {
    this.#ofFamily[cidr.family].remove(blockOf(cidr));
  }

  /** Networks of the union, in no particular order. */
  *cover(): Generator<Cidr> {
    yield* this.#ofFamily.ipv4.cover();
    yield* this.#ofFamily.ipv6.cover();
  }
}

/** Network as a node of the binary tree of all prefixes: its length, and that many bits of its address. */
interface Block {
  readonly length: number;
  readonly prefix: bigint;
}

class FamilyUnion {
  readonly #family: Family;
  /** Number of references to each network. */
  readonly #own = new Blocks<number>();
  /** Networks of the union. They are disjoint, and no two of them are the halves of a larger one. */
  readonly #cover = new Blocks<Cidr>();

  constructor(family: Family) {
    this.#family = family;
  }

  add(block: Block): void {
    const count = this.#own.get(block) ?? 0;
    this.#own.set(block, count + 1);
    if (count === 0) this.#include(block);
  }

  remove(block: Block): void {
    const count = this.#own.get(block) ?? 0;
    if (count > 1) this.#own.set(block, count - 1);
    if (count !== 1) return;
    this.#own.delete(block);
    const whole = this.#cover.smallestAround(block);
    if (!whole || this.#own.smallestAround(block)) return;
    this.#cover.delete(whole);
    for (let part = block; part.length > whole.length; part = parentOf(part)) this.#setCover(siblingOf(part));
    for (const inside of [...this.#own.inside(block)]) this.#include(inside);
  }

  cover(): Iterable<Cidr> {
    return this.#cover.values();
  }

  #include(block: Block): void {
    if (this.#cover.smallestAround(block)) return;
    for (const inside of [...this.#cover.inside(block)]) this.#cover.delete(inside);
    let whole = block;
    while (whole.length > 0 && this.#cover.delete(siblingOf(whole))) whole = parentOf(whole);
    this.#setCover(whole);
  }

  #setCover(block: Block): void {
    const { length, prefix } = block;
    const address = ipFromValue(this.#family, prefix << BigInt(addressBits(this.#family) - length));
    this.#cover.set(block, cidrOf(address, length));
  }
}

/** Map from blocks to values, by length and prefix. */
class Blocks<T> {
  readonly #ofLength = new Map<number, Map<bigint, T>>();

  get({ length, prefix }: Block): T | undefined {
    return this.#ofLength.get(length)?.get(prefix);
  }

  set({ length, prefix }: Block, value: T): void {
    const same = this.#ofLength.get(length) ?? new Map<bigint, T>();
    this.#ofLength.set(length, same.set(prefix, value));
  }

  /** @returns whether it was present */
  delete({ length, prefix }: Block): boolean {
    const same = this.#ofLength.get(length);
    const wasThere = same?.delete(prefix) ?? false;
    if (same?.size === 0) this.#ofLength.delete(length);
    return wasThere;
  }

  /** Returns the value of the block itself, or of the smallest block that contains it. */
  smallestAround({ length, prefix }: Block): Block | undefined {
    let found: Block | undefined;
    for (const [known, same] of this.#ofLength) {
      if (known > length || (found && found.length > known)) continue;
      const around = { length: known, prefix: prefix >> BigInt(length - known) };
      if (same.has(around.prefix)) found = around;
    }
    return found;
  }

  /** Blocks inside this one, without the block itself. */
  *inside({ length, prefix }: Block): Generator<Block> {
    for (const [known, same] of this.#ofLength) {
      if (known <= length) continue;
      for (const each of same.keys()) if (each >> BigInt(known - length) === prefix) yield { length: known, prefix: each };
    }
  }

  *values(): Generator<T> {
    for (const same of this.#ofLength.values()) yield* same.values();
  }
}

function blockOf({ family, network, prefixLength }: Cidr): Block {
  return { length: prefixLength, prefix: network.value >> BigInt(addressBits(family) - prefixLength) };
}

function parentOf({ length, prefix }: Block): Block {
  return { length: length - 1, prefix: prefix >> 1n };
}

function siblingOf({ length, prefix }: Block): Block {
  return { length, prefix: prefix ^ 1n };
}
