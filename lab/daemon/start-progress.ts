/** One step of starting a lab, or its end. */
type ProgressEvent =
  | { readonly is: 'step'; readonly text: string; readonly atMs: number }
  | { readonly is: 'ready'; readonly atMs: number }
  | { readonly is: 'failed'; readonly text: string; readonly atMs: number };

const eventsMax = 1000;

/** Recorded steps, for clients that connect early or late. */
export class StartProgress {
  readonly #events: ProgressEvent[] = [];
  readonly #listeners = new Set<(event: ProgressEvent) => void>();
  readonly #startMs = performance.now();

  get outcome(): 'starting' | 'ready' | 'failed' {
    const last = this.#events.at(-1);
    return last === undefined || last.is === 'step' ? 'starting' : last.is;
  }

  step(text: string): void {
    this.#tell({ is: 'step', text, atMs: this.#elapsedMs() });
  }

  ready(): void {
    this.#tell({ is: 'ready', atMs: this.#elapsedMs() });
  }

  failed(text: string): void {
    this.#tell({ is: 'failed', text, atMs: this.#elapsedMs() });
  }

  /** Delivers all past and all later events, until the returned function is called. */
  listen(listener: (event: ProgressEvent) => void): () => void {
    for (const event of this.#events) listener(event);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startMs);
  }

  #tell(event: ProgressEvent): void {
    if (this.#events.length < eventsMax) this.#events.push(event);
    for (const listener of this.#listeners) listener(event);
  }
}
