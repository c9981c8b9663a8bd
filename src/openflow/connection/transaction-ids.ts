/** The highest id that is lent; what lies above is for those who count on their own. */
const highest = 0xffff_fffe;

/**
 * Lends transaction ids. One object serves all streams of a connection in turn, so that an answer that comes late is never
 * taken for that of a later question.
 */
export class TransactionIds {
  #next = 1;

  /** Lends `count` ids in a row. */
  reserve(count: number): number {
    if (this.#next + count - 1 > highest) this.#next = 1;
    const first = this.#next;
    this.#next += count;
    return first;
  }
}
