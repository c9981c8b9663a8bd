import { fnv1aOf } from '../../../dataplane/pipeline/fnv-1a.ts';

/** Number of places for one hash: connections with equal hashes. */
const places = 4;
const nothing = -1;

/**
 * Numbers of records by connection, of a fixed size: a newer record takes the place of the oldest with its hash. The caller checks whether
 * the record is of the connection.
 */
export class OpenedIndex {
  readonly #numbers: Float64Array;
  readonly #mask: number;

  /** @param records maximum number of records to find */
  constructor(records: number) {
    const buckets = 2 ** Math.ceil(Math.log2(Math.max(1, records / places)) + 1);
    this.#numbers = new Float64Array(buckets * places).fill(nothing);
    this.#mask = buckets - 1;
  }

  add(key: string, number: number): void {
    const first = this.#firstOf(key);
    let oldest = first;
    for (let at = first; at < first + places; at++) if ((this.#numbers[at] ?? 0) < (this.#numbers[oldest] ?? 0)) oldest = at;
    this.#numbers[oldest] = number;
  }

  /** Returns numbers of records that may be of a connection, the newest first. */
  candidates(key: string): readonly number[] {
    const first = this.#firstOf(key);
    return [...this.#numbers.subarray(first, first + places)].filter((number) => number !== nothing).sort((a, b) => b - a);
  }

  #firstOf(key: string): number {
    return (fnv1aOf(key) & this.#mask) * places;
  }
}
