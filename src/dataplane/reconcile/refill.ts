import type { Plan } from './target.ts';

/** Entry points: the entries that forward packets to all others. */
export interface EntryPoints<K, V> {
  readonly has: (key: K) => boolean;
  /** Reports whether a present entry is Seine's and not another program's. */
  readonly isOurs: (key: K, value: V) => boolean;
}

/**
 * Refill of a target that another process emptied: entry points are put last, when all other entries are present. A packet that meets an
 * incomplete pipeline may be misclassified, and connection tracking keeps that result while the connection lasts. Example: without its
 * node's flow, an endpoint is reached through the gateway, whose connection then takes the replies.
 */
export class BridgeRefill<K, V> {
  readonly #entryPoints: EntryPoints<K, V> | undefined;
  /** Entry points that were not put for this reason. */
  readonly #withheld = new Set<K>();
  #isUnderWay = false;
  #isHeld = false;
  /** Set if this round writes the complete desired state. */
  #mayFinish = true;

  /** @param entryPoints if omitted, entries of this target may be put in any order */
  constructor(entryPoints: EntryPoints<K, V> | undefined) {
    this.#entryPoints = entryPoints;
  }

  /** True if the target had no entry point when last observed, and none was put since. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** Withholds the entry points of an emptied target until `release`: the desired state is incomplete. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
  }

  /** Begins a round. A round that began before `release` may not have the complete desired state. */
  begin(): void {
    this.#mayFinish = !this.#isHeld;
  }

  observed(actual: ReadonlyMap<K, V>): void {
    this.#isUnderWay = this.#entryPoints !== undefined && !this.#hasEntryPoint(actual, this.#entryPoints);
  }

  /** Returns the plan without entry points while the target is being refilled. */
  withoutEntryPoints(plan: Plan<K, V>): Plan<K, V> {
    if (!this.#isUnderWay || this.#entryPoints === undefined) return plan;
    const put = new Map(plan.put);
    for (const key of plan.put.keys()) {
      if (!this.#entryPoints.has(key)) continue;
      put.delete(key);
      this.#withheld.add(key);
    }
    return { ...plan, put };
  }

  /**
   * Ends the refill: all other entries are present. @returns the withheld entry points; undefined while they are to be withheld, or without
   * a refill
   */
  finish(): ReadonlySet<K> | undefined {
    if (!this.#isUnderWay || !this.#mayFinish) return undefined;
    this.#isUnderWay = false;
    const keys = new Set(this.#withheld);
    this.#withheld.clear();
    return keys;
  }

  #hasEntryPoint(actual: ReadonlyMap<K, V>, { has, isOurs }: EntryPoints<K, V>): boolean {
    for (const [key, value] of actual) if (has(key) && isOurs(key, value)) return true;
    return false;
  }
}
