import type { Log } from './log.ts';

/** Maximum number of reasons kept of one object. */
const REASONS_MAX = 5;

/** API objects that are not or not fully served, with reasons, for `seinectl status` and the log. */
export class UnservedReasons {
  readonly kind: string;
  readonly #log: Log;
  readonly #reasons = new Map<string, readonly string[]>();

  /** Creates an empty list. @param kind for example `Node` */
  constructor(kind: string, log: Log) {
    this.kind = kind;
    this.#log = log;
  }

  /** Replaces the reasons of one object; an empty list means that it is served. Each change is logged once. */
  set(name: string, reasons: readonly string[]): void {
    const before = this.#reasons.get(name) ?? [];
    const now = reasons.slice(0, REASONS_MAX);
    if (before.length === now.length && now.every((reason, at) => reason === before[at])) return;
    if (now.length === 0) this.#reasons.delete(name);
    else this.#reasons.set(name, now);
    if (now.length === 0) this.#log.info('object is fully served again', { kind: this.kind, object: name });
    else this.#log.warn('object is not fully served', { kind: this.kind, object: name, reasons: now });
  }

  of(name: string): readonly string[] {
    return this.#reasons.get(name) ?? [];
  }

  get size(): number {
    return this.#reasons.size;
  }

  /** Returns at most `most` objects, the oldest first. */
  first(most: number): readonly { readonly kind: string; readonly name: string; readonly reasons: readonly string[] }[] {
    return [...this.#reasons].slice(0, most).map(([name, reasons]) => ({ kind: this.kind, name, reasons }));
  }
}
