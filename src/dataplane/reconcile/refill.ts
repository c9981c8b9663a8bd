import type { Plan } from './target.ts';

/** What leads packets to everything else. */
export interface FrontEntries<K, V> {
  readonly has: (key: K) => boolean;
  /** Whether one that is held is no other program's. */
  readonly isOurs: (key: K, value: V) => boolean;
}

/**
 * A target that somebody emptied is filled from behind: what leads packets in is put when all the rest is there. A packet that meets a part
 * of it may be taken for what it is not, and the tracker remembers that for as long as it is asked: an endpoint on a node that has no flow
 * yet is led to by the gateway, whose connection then takes the answers.
 */
export class Filling<K, V> {
  readonly #front: FrontEntries<K, V> | undefined;
  /** What leads in, and was not put for that. */
  readonly #withheld = new Set<K>();
  #isUnderWay = false;
  #isHeld = false;
  /** Whether what this round writes is all that is known. */
  #mayLead = true;

  /** @param front left out: entries of this target may be put in any order */
  constructor(front: FrontEntries<K, V> | undefined) {
    this.#front = front;
  }

  /** Nothing led in when the target was looked at last, nor was put since. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** An emptied target stays without what leads in until `release`: not everything is wanted yet. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
  }

  /** A round begins. One that began before `release` may know less than is wanted now. */
  begin(): void {
    this.#mayLead = !this.#isHeld;
  }

  looked(actual: ReadonlyMap<K, V>): void {
    this.#isUnderWay = this.#front !== undefined && !this.#leadsIn(actual, this.#front);
  }

  /** The plan without what leads in, while the target is filled. */
  behind(plan: Plan<K, V>): Plan<K, V> {
    if (!this.#isUnderWay || this.#front === undefined) return plan;
    const put = new Map(plan.put);
    for (const key of plan.put.keys()) {
      if (!this.#front.has(key)) continue;
      put.delete(key);
      this.#withheld.add(key);
    }
    return { ...plan, put };
  }

  /** All the rest is there. @returns what may be put now that leads in; undefined while it is held, or where nothing is filled */
  finish(): ReadonlySet<K> | undefined {
    if (!this.#isUnderWay || !this.#mayLead) return undefined;
    this.#isUnderWay = false;
    const keys = new Set(this.#withheld);
    this.#withheld.clear();
    return keys;
  }

  #leadsIn(actual: ReadonlyMap<K, V>, { has, isOurs }: FrontEntries<K, V>): boolean {
    for (const [key, value] of actual) if (has(key) && isOurs(key, value)) return true;
    return false;
  }
}
