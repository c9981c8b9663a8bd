import { setImmediate as nextTurn } from 'node:timers/promises';

/** Entries compared between yields to the event loop: a millisecond of work at most, except when a table of all grows. */
export const COMPARE_SLICE = 500;

/** Keys of one, then those of the other that the first does not have. Both may change meanwhile. */
export function* eachOnce<K>(first: Iterable<K>, isInFirst: (key: K) => boolean, second: Iterable<K>): Generator<K> {
  yield* first;
  for (const key of second) if (!isInFirst(key)) yield key;
}

/** Keys of which the two hold different things, in turns with the rest of the process. Both may change meanwhile. */
export async function* differences<K, V>(a: ReadonlyMap<K, V>, b: ReadonlyMap<K, V>, equal: (a: V, b: V) => boolean): AsyncGenerator<K> {
  let compared = 0;
  for (const key of eachOnce(a.keys(), (key) => a.has(key), b.keys())) {
    if (++compared % COMPARE_SLICE === 0) await nextTurn();
    const [inA, inB] = [a.get(key), b.get(key)];
    if (inA === undefined || inB === undefined ? inA !== inB : !equal(inA, inB)) yield key;
  }
}
