import { setImmediate as nextTurn } from 'node:timers/promises';

/** Number of entries compared between yields to the event loop: at most a millisecond of work, except while a large table grows. */
export const COMPARE_SLICE = 500;

/** Keys of the first, then those of the second that the first does not have. Both may change during the iteration. */
export function* eachOnce<K>(first: Iterable<K>, isInFirst: (key: K) => boolean, second: Iterable<K>): Generator<K> {
  yield* first;
  for (const key of second) if (!isInFirst(key)) yield key;
}

/** Keys whose values differ between the two. Yields to the event loop between slices; both may change meanwhile. */
export async function* differences<K, V>(a: ReadonlyMap<K, V>, b: ReadonlyMap<K, V>, equal: (a: V, b: V) => boolean): AsyncGenerator<K> {
  let compared = 0;
  for (const key of eachOnce(a.keys(), (key) => a.has(key), b.keys())) {
    if (++compared % COMPARE_SLICE === 0) await nextTurn();
    const [inA, inB] = [a.get(key), b.get(key)];
    if (inA === undefined || inB === undefined ? inA !== inB : !equal(inA, inB)) yield key;
  }
}
