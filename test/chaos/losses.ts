/** What a packet was sent into that far ahead of a harm may have been caught by it (ms). */
const aheadMs = 50;

interface Span {
  readonly fromMs: number;
  mayLose: boolean;
}

/** When what was done that may lose packets: a loss is found out a second and more later, when other steps have come and gone. */
export class Losses {
  /** In their order. Before the first nothing is known. */
  #spans: readonly Span[] = [];

  /** A step begins. Until it is judged it may lose anything. */
  begin(atMs: number): void {
    this.#spans = [...this.#spans, { fromMs: atMs, mayLose: true }];
  }

  /** What began last is over. */
  end(mayLose: boolean): void {
    const last = this.#spans.at(-1);
    if (last !== undefined) last.mayLose = mayLose;
  }

  /** Whether something that was sent at this moment may be lost. */
  allowed(sentMs: number): boolean {
    return [sentMs, sentMs + aheadMs].some((moment) => this.#spans.findLast(({ fromMs }) => fromMs <= moment)?.mayLose ?? true);
  }
}
