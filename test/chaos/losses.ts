/** A packet sent this long before a fault may be affected by it (ms). */
const aheadMs = 50;

interface Span {
  readonly fromMs: number;
  mayLose: boolean;
}

/** Times of actions that may lose packets: a loss is detected a second and more later, when other steps have passed. */
export class Losses {
  /** Spans in their order. Before the first nothing is known. */
  #spans: readonly Span[] = [];

  /** Starts a step. Until it is judged it may lose anything. */
  begin(atMs: number): void {
    this.#spans = [...this.#spans, { fromMs: atMs, mayLose: true }];
  }

  /** Ends the last step. */
  end(mayLose: boolean): void {
    const last = this.#spans.at(-1);
    if (last !== undefined) last.mayLose = mayLose;
  }

  /** Reports whether a packet sent at this moment may be lost. */
  allowed(sentMs: number): boolean {
    return [sentMs, sentMs + aheadMs].some((moment) => this.#spans.findLast(({ fromMs }) => fromMs <= moment)?.mayLose ?? true);
  }
}
