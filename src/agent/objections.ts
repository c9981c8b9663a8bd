import type { Log } from '../log/log.ts';

/** Of one object, so many are kept. */
const REASONS_MAX = 5;

/** What is wrong with objects of the API that are served in part or not at all, for `seinectl status` and the log. */
export class Objections {
  readonly kind: string;
  readonly #log: Log;
  readonly #reasons = new Map<string, readonly string[]>();

  /** @param kind e.g. `Node` */
  constructor(kind: string, log: Log) {
    this.kind = kind;
    this.#log = log;
  }

  /** Replaces what is wrong with one object; an empty list: nothing. Logged once for each change. */
  set(name: string, reasons: readonly string[]): void {
    const before = this.#reasons.get(name) ?? [];
    const now = reasons.slice(0, REASONS_MAX);
    if (before.length === now.length && now.every((reason, at) => reason === before[at])) return;
    if (now.length === 0) this.#reasons.delete(name);
    else this.#reasons.set(name, now);
    if (now.length === 0) this.#log.info('an object is served again as it says', { kind: this.kind, object: name });
    else this.#log.warn('an object is not served as it says', { kind: this.kind, object: name, reasons: now });
  }

  of(name: string): readonly string[] {
    return this.#reasons.get(name) ?? [];
  }

  get size(): number {
    return this.#reasons.size;
  }

  /** As many as there are, `most` at most, in the order in which something became wrong with them. */
  first(most: number): readonly { readonly kind: string; readonly name: string; readonly reasons: readonly string[] }[] {
    return [...this.#reasons].slice(0, most).map(([name, reasons]) => ({ kind: this.kind, name, reasons }));
  }
}
