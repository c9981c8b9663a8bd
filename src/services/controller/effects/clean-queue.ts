import { idle } from '../../../base/async/pause.ts';
import { within } from '../../../base/async/time-limit.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';

/**
 * Pause after each pass, as a multiple of its duration: passes take at most a fifth of the agent's time. A walk through the kernel's table
 * takes 13 ms with 262,144 buckets, however few are used.
 */
const PAUSE_FOR_EACH_PASS = 4;
/** Maximum pause (ms): a pass that waited for OVS to return did not use the agent's time. */
const PAUSE_MAX_MS = 250;
/** Delay before a failed pass is retried (ms): doubled with each consecutive failure. */
const RETRY_MS = { first: 200, most: 30_000 } as const;

interface CleanQueueOptions<T> {
  /** Returns the identity of work: two items with one key are the same. */
  readonly keyOf: (work: T) => string;
  /** Maximum number of waiting items; above it, each is replaced with its `coarser` form. */
  readonly waitingMax: number;
  /** Returns work that includes this item and deletes more; many items share it. */
  readonly coarser: (work: T) => T;
  /** Reports whether the connections to be deleted now belong to something that is served again. */
  readonly isOutOfDate: (work: T) => boolean;
  /** Executes all items; counted only if it resolves. */
  readonly pass: (due: readonly T[]) => void | Promise<void>;
  readonly failed: (thrown: unknown) => void;
  readonly signal: AbortSignal;
}

interface WaitingWork<T> {
  readonly work: T;
  /** Times when the item is due (`performance.now()`); ascending, at least one. */
  readonly dueMs: readonly number[];
}

/**
 * Queue of work that is done several times at intervals, and retried after a failure until it succeeds: nothing is lost unless the agent
 * ends. Items that are due at one time are executed in one pass.
 */
export class CleanQueue<T> {
  readonly #options: CleanQueueOptions<T>;
  readonly #waiting = new Map<string, WaitingWork<T>>();
  readonly #bell = new Doorbell();
  #isWorking = false;
  #failures = 0;
  #merged = 0;

  constructor(options: CleanQueueOptions<T>) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of items that were replaced with coarser ones, because there were too many. */
  get merged(): number {
    return this.#merged;
  }

  /** @param afterMs delays from now (ms); ascending, at least one */
  add(all: readonly T[], afterMs: readonly number[]): void {
    const { waitingMax, coarser } = this.#options;
    const isTooMuch = this.#waiting.size + all.length > waitingMax;
    for (const work of all) this.#note(isTooMuch ? coarser(work) : work, afterMs);
    if (isTooMuch) this.#merge(afterMs);
    if (this.#waiting.size === 0) return;
    if (this.#isWorking) this.#bell.ring();
    else void this.#work();
  }

  #note(work: T, afterMs: readonly number[]): void {
    const nowMs = performance.now();
    this.#waiting.set(this.#options.keyOf(work), { work, dueMs: afterMs.map((ms) => nowMs + ms) });
  }

  #merge(afterMs: readonly number[]): void {
    const { keyOf, coarser } = this.#options;
    for (const [key, { work }] of this.#waiting) {
      const instead = coarser(work);
      if (keyOf(instead) === key) continue;
      this.#waiting.delete(key);
      this.#note(instead, afterMs);
      this.#merged++;
    }
  }

  /** Executes due items. Never rejects. */
  async #work(): Promise<void> {
    const { signal, isOutOfDate } = this.#options;
    this.#isWorking = true;
    while (this.#waiting.size > 0 && !signal.aborted) {
      const beginMs = performance.now();
      for (const [key, { work }] of this.#waiting) if (isOutOfDate(work)) this.#waiting.delete(key);
      const due = [...this.#waiting].filter(([, { dueMs }]) => (dueMs[0] ?? 0) <= beginMs);
      if (due.length > 0) {
        await this.#tryPass(due, beginMs);
        await idle(PAUSE_FOR_EACH_PASS * Math.min(performance.now() - beginMs, PAUSE_MAX_MS), signal);
      }
      await this.#untilDue();
    }
    this.#isWorking = false;
  }

  /** Executes a pass. Items that were added again meanwhile keep their new times. */
  async #tryPass(due: readonly (readonly [string, WaitingWork<T>])[], beginMs: number): Promise<void> {
    const { pass, failed, signal } = this.#options;
    const retryMs = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.#failures);
    const isDone = await attempt(() => pass(due.map(([, { work }]) => work)), failed);
    if (signal.aborted) return;
    this.#failures = isDone ? 0 : this.#failures + 1;
    for (const [key, entry] of due) {
      if (this.#waiting.get(key) !== entry) continue;
      const later = entry.dueMs.filter((ms) => ms > beginMs);
      const again = isDone ? later : [performance.now() + retryMs];
      if (again.length === 0) this.#waiting.delete(key);
      else this.#waiting.set(key, { work: entry.work, dueMs: again });
    }
  }

  /** Waits until an item is due or added. */
  async #untilDue(): Promise<void> {
    if (this.#waiting.size === 0) return;
    let dueMs = Infinity;
    for (const each of this.#waiting.values()) dueMs = Math.min(dueMs, each.dueMs[0] ?? 0);
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await this.#bell.wait(within(this.#options.signal, Math.ceil(waitMs)));
  }
}

async function attempt(act: () => void | Promise<void>, failed: (thrown: unknown) => void): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (thrown) {
    failed(thrown);
    return false;
  }
}
