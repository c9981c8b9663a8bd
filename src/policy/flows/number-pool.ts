import { SeineError } from '../../base/errors/seine-error.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { cookieOf } from '../../dataplane/pipeline/cookie.ts';

/**
 * Time for which a number stays reserved after the bridge has acknowledged its removal (ms): counters and packets sent to the agent still
 * carry it.
 */
const restMs = 5_000;

interface AllocatedNumber {
  readonly name: Owner;
  readonly number: number;
  uses: number;
  /** True if another content takes over the number when this one is no longer used. */
  isInherited?: true;
  /** Revision of the desired state that no longer contains the unused number, and the time at which the bridge had reached it. */
  revision?: number | undefined;
  removedMs?: number | undefined;
}

/** Numbers that are in use on the bridge. */
export interface RecoveredNumbers {
  /** Numbers by the cookie of a content's name. */
  readonly byCookie: ReadonlyMap<bigint, number>;
  /** All numbers on the bridge, with any cookie. */
  readonly seen: ReadonlySet<number>;
}

/**
 * Allocates numbers to contents. A number never changes its meaning while the bridge may have it: it becomes free some time after the
 * bridge has acknowledged its removal. Until then the same content gets the same number. Uses no clock.
 */
export class NumberPool {
  readonly #first: number;
  readonly #last: number;
  readonly #allocated = new Map<Owner, AllocatedNumber>();
  readonly #taken = new Set<number>();
  readonly #retired = new Set<AllocatedNumber>();
  readonly #recovered: Map<bigint, number>;
  /** Numbers on the bridge that no content has claimed. */
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

  /**
   * Announces contents that are about to be acquired. If two of them have the same cookie, it is not known which one the bridge's number
   * belongs to, and neither gets it.
   */
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

  /** Counts one use more. @returns undefined if no number is free */
  acquire(name: Owner): number | undefined {
    const known = this.#allocated.get(name);
    if (known) {
      if (known.uses++ === 0) this.#begin(known);
      return known.number;
    }
    const number = this.#recoveredOf(name) ?? this.#free();
    if (number === undefined) return undefined;
    const allocated: AllocatedNumber = { name, number, uses: 1 };
    this.#taken.add(number);
    this.#allocated.set(name, allocated);
    this.#begin(allocated);
    return number;
  }

  /** Reports whether a number is allocated to this content, or the bridge may have one for it. */
  isKnown(name: Owner): boolean {
    return this.#allocated.has(name) || (this.#recovered.size > 0 && this.#recovered.has(cookieOf(name)));
  }

  /** Returns the number that the bridge may have for this content, allocated by this or a previous agent. */
  heldNumberOf(name: Owner): number | undefined {
    return this.#allocated.get(name)?.number ?? (this.#recovered.size > 0 ? this.#recovered.get(cookieOf(name)) : undefined);
  }

  /** Returns the number of uses of a content. */
  usesOf(name: Owner): number {
    return this.#allocated.get(name)?.uses ?? 0;
  }

  /**
   * Passes the number of a content that goes out of use before `takeChanges` to one that has no number yet. The bridge must apply both
   * changes at once.
   *
   * @throws SeineError `INVARIANT` if one of the contents is not in this state
   */
  inherit(name: Owner, from: Owner): void {
    const former = this.#allocated.get(from);
    if (!former || former.uses === 0 || former.isInherited || this.isKnown(name))
      throw new SeineError('INVARIANT', `${name} inherits from ${from}`);
    former.isInherited = true;
    this.#allocated.set(name, { name, number: former.number, uses: 0 });
  }

  /** Counts one use less; does nothing for a content that got no number. */
  release(name: Owner): void {
    const allocated = this.#allocated.get(name);
    if (!allocated || allocated.uses === 0 || --allocated.uses > 0) return;
    if (allocated.isInherited) this.#allocated.delete(name);
    else this.#retired.add(allocated);
    if (!this.#began.delete(name)) this.#ended.add(name);
  }

  numberOf(name: Owner): number | undefined {
    const allocated = this.#allocated.get(name);
    return allocated && allocated.uses > 0 ? allocated.number : undefined;
  }

  /** Number of contents that can still get a number. */
  get free(): number {
    return this.#last - this.#first + 1 - this.#taken.size;
  }

  /** Number of contents in use. */
  get size(): number {
    return this.#allocated.size - this.#retired.size;
  }

  /** Returns the contents that came into use and went out of use since the last call. */
  takeChanges(): { readonly began: ReadonlySet<Owner>; readonly ended: ReadonlySet<Owner> } {
    const changes = { began: this.#began, ended: this.#ended };
    this.#began = new Set();
    this.#ended = new Set();
    return changes;
  }

  /** Notes that the desired state of this revision no longer contains the unused contents. */
  written(revision: number): void {
    for (const allocated of this.#retired) allocated.revision ??= revision;
  }

  /** Notes that the bridge has reached this revision of the desired state. @returns true if numbers became free */
  acknowledged(revision: number, nowMs: number): boolean {
    let isFreed = false;
    for (const allocated of this.#retired) {
      if (allocated.revision === undefined || allocated.revision > revision) continue;
      allocated.removedMs ??= nowMs;
      if (nowMs - allocated.removedMs < restMs) continue;
      this.#retired.delete(allocated);
      this.#allocated.delete(allocated.name);
      this.#taken.delete(allocated.number);
      isFreed = true;
    }
    return isFreed;
  }

  /** Notes that nothing obsolete is left on the bridge: numbers of a previous agent that no content has claimed are free. */
  obsoleteRemoved(): void {
    for (const number of this.#leftovers) this.#taken.delete(number);
    this.#leftovers.clear();
    this.#recovered.clear();
  }

  #begin(allocated: AllocatedNumber): void {
    if (this.#retired.delete(allocated)) {
      allocated.revision = undefined;
      allocated.removedMs = undefined;
    }
    if (!this.#ended.delete(allocated.name)) this.#began.add(allocated.name);
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
