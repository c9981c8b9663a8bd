import { setImmediate as nextTurn } from 'node:timers/promises';
import { COMPARE_SLICE } from './differences.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import type { Retries } from './retries.ts';
import type { Plan } from './target.ts';

type ComparisonOptions<K extends string, V> = Pick<ReconcilerOptions<K, V>, 'desired' | 'equal' | 'now'> & {
  readonly retries: Pick<Retries<K, V>, 'isBackedOff'>;
};

/** Compares desired with observed state: which entries to put, and which to remove as far as that is allowed. */
export class Comparison<K extends string, V> {
  readonly #options: ComparisonOptions<K, V>;
  /** Selects the undesired keys that may be removed. */
  #mayRemove: (key: K, held: V) => boolean = () => false;
  /** Keys whose removal is not allowed yet. */
  readonly #withheld = new Set<K>();

  constructor(options: ComparisonOptions<K, V>) {
    this.#options = options;
  }

  /**
   * Allows the removal of undesired entries that `which` selects.
   *
   * @param held content of the target, if it is known
   * @returns keys that were withheld until now and have to be compared again
   */
  allowRemovals(which: (key: K, held: V) => boolean, held: ReadonlyMap<K, V> | undefined): K[] {
    this.#mayRemove = which;
    const released: K[] = [];
    for (const key of this.#withheld) {
      const value = held?.get(key);
      if (value !== undefined && !which(key, value)) continue; // one of many thousands, of which none may be removable for a while
      released.push(key);
      this.#withheld.delete(key);
    }
    return released;
  }

  /**
   * Returns the changes needed for these keys, and yields to the event loop between slices. Leaves out keys that are backed off.
   *
   * @param actual content of the target. Equal values are replaced by the desired ones, so that one copy serves both.
   */
  async plan(keys: Iterable<K>, actual: Map<K, V>): Promise<Plan<K, V>> {
    const { desired, equal, now, retries } = this.#options;
    const put = new Map<K, V>();
    const remove = new Set<K>();
    let compared = 0;
    for (const key of keys) {
      if (++compared % COMPARE_SLICE === 0) await nextTurn();
      const wanted = desired.wanted(key);
      const held = actual.get(key);
      if (wanted === undefined) {
        if (held !== undefined) (this.#mayRemove(key, held) ? remove : this.#withheld).add(key);
        continue;
      }
      this.#withheld.delete(key);
      if (held !== undefined && equal(held, wanted)) {
        // One copy of key and value, not two: `set` alone would keep the existing key.
        actual.delete(key);
        actual.set(key, wanted);
      } else if (!retries.isBackedOff(key, now())) put.set(key, wanted);
    }
    // Entries that became desired during the comparison were compared only in part.
    for (const group of desired.groups)
      for (const key of group) {
        put.delete(key);
        remove.delete(key);
      }
    return { put, remove };
  }

  /** Reports whether the target has all that an owner wants. */
  isMet(owner: string, actual: ReadonlyMap<K, V>): boolean {
    const { desired, equal } = this.#options;
    return desired.keysOf(owner).every((key) => {
      const [held, wanted] = [actual.get(key), desired.wanted(key)];
      return held !== undefined && wanted !== undefined && equal(held, wanted);
    });
  }
}
