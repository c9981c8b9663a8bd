import { SeineError } from '../../base/errors/seine-error.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { cookieOf } from '../../dataplane/pipeline/cookie.ts';

/** How long after the bridge has acknowledged that it is gone a number is not lent again (ms): counters and packets to the agent name it. */
const restMs = 5_000;

interface LentNumber {
  readonly name: Owner;
  readonly number: number;
  uses: number;
  /** Another content takes the number over once nobody uses this one any more. */
  isInherited?: true;
  /** Once nobody uses it: the revision of the wanted state that is without it, and when the bridge was. */
  revision?: number | undefined;
  goneMs?: number | undefined;
}

/** What the bridge says was lent. */
export interface RecoveredNumbers {
  /** By the cookie of a content's name. */
  readonly byCookie: ReadonlyMap<bigint, number>;
  /** All that the bridge has, with whatever cookie. */
  readonly seen: ReadonlySet<number>;
}

/**
 * Lends numbers to contents. A number never comes to mean something else while the bridge may have it: it is free again when the bridge has
 * acknowledged that it is gone, and some time has passed. Until then the same content gets the same number. Knows no clock.
 */
export class LentNumbers {
  readonly #first: number;
  readonly #last: number;
  readonly #lent = new Map<Owner, LentNumber>();
  readonly #taken = new Set<number>();
  readonly #retired = new Set<LentNumber>();
  readonly #recovered: Map<bigint, number>;
  /** Of the bridge, and nobody's. */
  readonly #leftovers: Set<number>;
  #next: number;
  #began = new Set<Owner>();
  #ended = new Set<Owner>();

  constructor(range: { readonly first: number; readonly last: number }, { byCookie, seen }: RecoveredNumbers) {
    this.#first = range.first;
    this.#last = range.last;
    this.#next = range.first;
    const inRange = (number: number): boolean => number >= range.first && number <= range.last;
    this.#recovered = new Map([...byCookie].filter(([, number]) => inRange(number)));
    this.#leftovers = new Set([...seen].filter(inRange));
    for (const number of this.#leftovers) this.#taken.add(number);
  }

  /** Contents that are about to be asked for: of two with one cookie nobody knows whose the bridge's number is, and neither gets it. */
  announce(names: Iterable<Owner>): void {
    if (this.#recovered.size === 0) return;
    const claims = new Map<bigint, Owner>();
    for (const name of names) {
      const cookie = cookieOf(name);
      const other = claims.get(cookie);
      if (other !== undefined && other !== name) this.#recovered.delete(cookie);
      claims.set(cookie, name);
    }
  }

  /** One use more. @returns undefined if there is no number left */
  acquire(name: Owner): number | undefined {
    const known = this.#lent.get(name);
    if (known) {
      if (known.uses++ === 0) this.#begin(known);
      return known.number;
    }
    const number = this.#recoveredOf(name) ?? this.#free();
    if (number === undefined) return undefined;
    const lent: LentNumber = { name, number, uses: 1 };
    this.#taken.add(number);
    this.#lent.set(name, lent);
    this.#begin(lent);
    return number;
  }

  /** Whether a number is lent to it, or the bridge may have one for it. */
  isKnown(name: Owner): boolean {
    return this.#lent.has(name) || (this.#recovered.size > 0 && this.#recovered.has(cookieOf(name)));
  }

  /** The number that the bridge may have for it: lent, or as an earlier agent lent it. */
  heldNumberOf(name: Owner): number | undefined {
    return this.#lent.get(name)?.number ?? (this.#recovered.size > 0 ? this.#recovered.get(cookieOf(name)) : undefined);
  }

  /** How often a content is used. */
  usesOf(name: Owner): number {
    return this.#lent.get(name)?.uses ?? 0;
  }

  /**
   * A content that is not known takes over the number of one that goes out of use before numbers are looked at again. The bridge has to learn of both at once.
   *
   * @throws SeineError `INVARIANT` if one is not as it has to be
   */
  inherit(name: Owner, from: Owner): void {
    const former = this.#lent.get(from);
    if (!former || former.uses === 0 || former.isInherited || this.isKnown(name))
      throw new SeineError('INVARIANT', `${name} inherits from ${from}`);
    former.isInherited = true;
    this.#lent.set(name, { name, number: former.number, uses: 0 });
  }

  /** One use less; of a content that got no number, nothing. */
  release(name: Owner): void {
    const lent = this.#lent.get(name);
    if (!lent || lent.uses === 0 || --lent.uses > 0) return;
    if (lent.isInherited) this.#lent.delete(name);
    else this.#retired.add(lent);
    if (!this.#began.delete(name)) this.#ended.add(name);
  }

  numberOf(name: Owner): number | undefined {
    const lent = this.#lent.get(name);
    return lent && lent.uses > 0 ? lent.number : undefined;
  }

  /** How many more contents can get one. */
  get free(): number {
    return this.#last - this.#first + 1 - this.#taken.size;
  }

  /** Contents in use. */
  get size(): number {
    return this.#lent.size - this.#retired.size;
  }

  /** Contents that came into use and went out of it since the last call. */
  takeChanges(): { readonly began: ReadonlySet<Owner>; readonly ended: ReadonlySet<Owner> } {
    const changes = { began: this.#began, ended: this.#ended };
    this.#began = new Set();
    this.#ended = new Set();
    return changes;
  }

  /** What has gone out of use is not in the wanted state of this revision. */
  written(revision: number): void {
    for (const lent of this.#retired) lent.revision ??= revision;
  }

  /** The bridge is as was wanted at this revision. @returns whether numbers are free that were not */
  acknowledged(revision: number, nowMs: number): boolean {
    let isFreed = false;
    for (const lent of this.#retired) {
      if (lent.revision === undefined || lent.revision > revision) continue;
      lent.goneMs ??= nowMs;
      if (nowMs - lent.goneMs < restMs) continue;
      this.#retired.delete(lent);
      this.#lent.delete(lent.name);
      this.#taken.delete(lent.number);
      isFreed = true;
    }
    return isFreed;
  }

  /** The bridge has nothing that nobody wants: what it had of an earlier agent, and nobody asked for, is free. */
  leftoversGone(): void {
    for (const number of this.#leftovers) this.#taken.delete(number);
    this.#leftovers.clear();
    this.#recovered.clear();
  }

  #begin(lent: LentNumber): void {
    if (this.#retired.delete(lent)) {
      lent.revision = undefined;
      lent.goneMs = undefined;
    }
    if (!this.#ended.delete(lent.name)) this.#began.add(lent.name);
  }

  #recoveredOf(name: Owner): number | undefined {
    if (this.#recovered.size === 0) return undefined;
    const cookie = cookieOf(name);
    const number = this.#recovered.get(cookie);
    if (number === undefined) return undefined;
    this.#recovered.delete(cookie);
    this.#leftovers.delete(number);
    return number;
  }

  #free(): number | undefined {
    const count = this.#last - this.#first + 1;
    if (this.#taken.size >= count) return undefined;
    while (this.#taken.has(this.#next)) this.#step();
    const number = this.#next;
    this.#step();
    return number;
  }

  #step(): void {
    this.#next = this.#next === this.#last ? this.#first : this.#next + 1;
  }
}
