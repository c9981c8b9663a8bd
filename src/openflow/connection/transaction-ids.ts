/** Highest id that is allocated; higher ones are left to callers that number messages themselves. */
const highest = 0xffff_fffe;

/**
 * Allocates transaction ids. One object serves all consecutive streams of a connection, so that a late answer is never taken for the answer
 * to a later request.
 */
export class TransactionIds {
  #next = 1;

  /** Allocates `count` consecutive ids. */
  reserve(count: number): number {
    if (this.#next + count - 1 > highest) this.#next = 1;
    const first = this.#next;
    this.#next += count;
    return first;
  }
}
