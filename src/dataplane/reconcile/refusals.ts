import type { SeineError } from '../../base/errors/seine-error.ts';

export interface OwnerFailure {
  readonly owner: string;
  readonly error: SeineError;
  readonly atMs: number;
}

interface Refusal extends OwnerFailure {
  readonly retryAtMs: number;
  /** Number of consecutive refusals. */
  readonly times: number;
}

const FIRST_RETRY_MS = 30_000;
const LAST_RETRY_MS = 300_000;

/** Owners whose entries a target refuses, each with the time of its next retry: with growing back-off. */
export class Refusals {
  readonly #byOwner = new Map<string, Refusal>();

  note(owner: string, error: SeineError, atMs: number): void {
    const times = (this.#byOwner.get(owner)?.times ?? 0) + 1;
    const retryAtMs = atMs + Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (times - 1));
    this.#byOwner.set(owner, { owner, error, atMs, retryAtMs, times });
  }

  get(owner: string): OwnerFailure | undefined {
    return this.#byOwner.get(owner);
  }

  get isEmpty(): boolean {
    return this.#byOwner.size === 0;
  }

  has(owner: string): boolean {
    return this.#byOwner.has(owner);
  }

  /** @returns whether there was one */
  delete(owner: string): boolean {
    return this.#byOwner.delete(owner);
  }

  list(): readonly OwnerFailure[] {
    return [...this.#byOwner.values()];
  }

  isBackedOff(owner: string, nowMs: number): boolean {
    return (this.#byOwner.get(owner)?.retryAtMs ?? 0) > nowMs;
  }

  /** Time of the next retry; `Infinity` if there is none. */
  nextMs(): number {
    let due = Infinity;
    for (const { retryAtMs } of this.#byOwner.values()) due = Math.min(due, retryAtMs);
    return due;
  }
}
