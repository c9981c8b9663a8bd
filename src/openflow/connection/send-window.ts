/**
 * Counts the bytes that a switch has not acknowledged. Replies to barrier requests acknowledge bytes, so a barrier is written at intervals:
 * a `mark`.
 */
export class SendWindow {
  readonly limitBytes: number;
  /** Barriers that wait for their replies, in the order of writing. */
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

  /** Reports whether this many bytes can be written. A message larger than the window is sent alone. */
  hasRoom(bytes: number): boolean {
    return this.unacknowledgedBytes === 0 || this.unacknowledgedBytes + bytes <= this.limitBytes;
  }

  wrote(bytes: number): void {
    this.#sentBytes += bytes;
  }

  /** Reports whether enough was written since the last mark. */
  get markDue(): boolean {
    return this.#sentBytes - this.#markedBytes >= this.limitBytes / 8;
  }

  /** Reports whether anything was written that no mark will acknowledge. */
  get hasUnmarked(): boolean {
    return this.#sentBytes > this.#markedBytes;
  }

  /** Records that a barrier request with this transaction id was written, after everything counted so far. */
  mark(xid: number): void {
    this.#marks.push({ xid, sentBytes: this.#sentBytes });
    this.#markedBytes = this.#sentBytes;
  }

  /** Records a barrier reply. @returns whether it belongs to a mark */
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
