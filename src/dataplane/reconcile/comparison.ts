import { setImmediate as nextTurn } from 'node:timers/promises';
import { COMPARE_SLICE } from './differences.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import type { Retries } from './retries.ts';
import type { Plan } from './target.ts';

type ComparisonOptions<K extends string, V> = Pick<ReconcilerOptions<K, V>, 'desired' | 'equal' | 'now'> & {
  readonly retries: Pick<Retries<K, V>, 'isBackedOff'>;
};

/** What is wanted against what is held: what is to be put, and what is to go and may. */
export class Comparison<K extends string, V> {
  readonly #options: ComparisonOptions<K, V>;
  /** Which unwanted keys may be removed. */
  #mayRemove: (key: K, held: V) => boolean = () => false;
  /** Keys whose removal is not allowed yet. */
  readonly #withheld = new Set<K>();

  constructor(options: ComparisonOptions<K, V>) {
    this.#options = options;
  }

  /**
   * From now on unwanted entries that `which` selects may go.
   *
   * @param held what the target is known to hold, if that is known
   * @returns keys that were withheld until now, and are to be compared again
   */
  allowRemovals(which: (key: K, held: V) => boolean, held: ReadonlyMap<K, V> | undefined): K[] {
    this.#mayRemove = which;
    const released: K[] = [];
    for (const key of this.#withheld) {
      const value = held?.get(key);
      if (value !== undefined && !which(key, value)) continue; // of many thousands, none may go for a while
      released.push(key);
      this.#withheld.delete(key);
    }
    return released;
  }

  /**
   * What has to change for these keys, in turns with the rest of the process. Leaves out what is backed off.
   *
   * @param actual what the target holds. It gets the wanted value in place of an equal one, so that there is one copy of both.
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
        // One copy of key and value, not two: setting alone would keep the key that is there.
        actual.delete(key);
        actual.set(key, wanted);
      } else if (!retries.isBackedOff(key, now())) put.set(key, wanted);
    }
    // What has come to be wanted meanwhile was compared in part.
    for (const group of desired.groups)
      for (const key of group) {
        put.delete(key);
        remove.delete(key);
      }
    return { put, remove };
  }

  /** Whether all that an owner wants is held. */
  isMet(owner: string, actual: ReadonlyMap<K, V>): boolean {
    const { desired, equal } = this.#options;
    return desired.keysOf(owner).every((key) => {
      const [held, wanted] = [actual.get(key), desired.wanted(key)];
      return held !== undefined && wanted !== undefined && equal(held, wanted);
    });
  }
}
