/**
 * Counts the bytes of which a switch has not yet shown that it has dealt with them. What shows it is the reply to a barrier
 * request, so one is written every now and then: a `mark`.
 */
export class SendWindow {
  readonly limitBytes: number;
  /** Barriers that wait for their replies, in the order in which they were written. */
  readonly #marks: { readonly xid: number; readonly sentBytes: number }[] = [];
  #sentBytes = 0;
  #markedBytes = 0;
  #acknowledgedBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  get unacknowledgedBytes(): number {
    return this.#sentBytes - this.#acknowledgedBytes;
  }

  /** Whether so much can be written. What is larger than the window goes alone. */
  hasRoom(bytes: number): boolean {
    return this.unacknowledgedBytes === 0 || this.unacknowledgedBytes + bytes <= this.limitBytes;
  }

  wrote(bytes: number): void {
    this.#sentBytes += bytes;
  }

  /** Whether enough was written since the last mark. */
  get markDue(): boolean {
    return this.#sentBytes - this.#markedBytes >= this.limitBytes / 8;
  }

  /** Whether anything was written that no mark will acknowledge. */
  get hasUnmarked(): boolean {
    return this.#sentBytes > this.#markedBytes;
  }

  /** A barrier request with this transaction id was written, after everything counted so far. */
  mark(xid: number): void {
    this.#marks.push({ xid, sentBytes: this.#sentBytes });
    this.#markedBytes = this.#sentBytes;
  }

  /** A barrier reply came. @returns whether it was that of a mark */
  acknowledge(xid: number): boolean {
    const at = this.#marks.findIndex((mark) => mark.xid === xid);
    const mark = this.#marks[at];
    if (mark === undefined) return false;
    // Barriers are answered in order, so the ones before it are acknowledged too.
    this.#marks.splice(0, at + 1);
    this.#acknowledgedBytes = mark.sentBytes;
    return true;
  }
}
