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
/**
 * Number of items of one pass where each costs the target: the first, the most, and the durations (ms) below and above which it is doubled
 * and halved. What the target is asked meanwhile waits for the pass.
 */
const AT_ONCE = { first: 8, most: 64, shortMs: 5, longMs: 20 } as const;
/** Delay before a failed pass is retried (ms): doubled with each consecutive failure. */
const RETRY_MS = { first: 200, most: 30_000 } as const;

interface CleanQueueOptions<T> {
  /** Returns the identity of work: two items with one key are the same. */
  readonly keyOf: (work: T) => string;
  /** Number of waiting items above which each is replaced with its `coarser` form. */
  readonly waitingMax: number;
  /** Returns work that includes this item and deletes more; many items share it. Undefined if there is none. */
  readonly coarser: (work: T) => T | undefined;
  /** Called when items are replaced. */
  readonly tooMany?: () => void;
  /** Reports whether the connections to be deleted now belong to something that is served again. */
  readonly isOutOfDate: (work: T) => boolean;
  /** True if each item costs the target as much as the first: then few are executed in one pass. */
  readonly costsEach?: boolean;
  /** Executes all items; counted only if it resolves. */
  readonly pass: (due: readonly T[]) => void | Promise<void>;
  readonly failed: (thrown: unknown) => void;
  readonly signal: AbortSignal;
}

interface WaitingWork<T> {
  readonly work: T;
  readonly share: string;
  /** Times when the item is due (`performance.now()`); ascending, at least one. */
  readonly dueMs: readonly number[];
}

type DueWork<T> = readonly [key: string, entry: WaitingWork<T>];

/**
 * Queue of work that is done several times at intervals, and retried after a failure until it succeeds: nothing is lost unless the agent
 * ends. Items that are due at one time are executed in one pass, or in several short ones, to which each share contributes equally.
 */
export class CleanQueue<T> {
  readonly #options: CleanQueueOptions<T>;
  readonly #waiting = new Map<string, WaitingWork<T>>();
  /** Keys of waiting items that have a coarser form: no other is looked at when there are too many. */
  readonly #fine = new Set<string>();
  readonly #bell = new Doorbell();
  /** Number of the last pass of each share, for their order in the next one. */
  readonly #lastPass = new Map<string, number>();
  #passes = 0;
  #isWorking = false;
  #atOnce: number;
  #failures = 0;
  #merged = 0;

  constructor(options: CleanQueueOptions<T>) {
    this.#options = options;
    this.#atOnce = options.costsEach === true ? AT_ONCE.first : Infinity;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of items that were replaced with coarser ones. */
  get merged(): number {
    return this.#merged;
  }

  /** @param afterMs delays from now (ms); ascending, at least one @param share whose items these are: none waits for all of another's */
  add(all: readonly T[], afterMs: readonly number[], share = ''): void {
    for (const work of all) this.#note(work, afterMs, share);
    while (this.#waiting.size > this.#options.waitingMax && this.#fine.size > 0) this.#merge(afterMs);
    if (this.#waiting.size === 0) return;
    if (this.#isWorking) this.#bell.ring();
    else void this.#work();
  }

  #note(work: T, afterMs: readonly number[], share: string): void {
    const { keyOf, coarser } = this.#options;
    const nowMs = performance.now();
    const key = keyOf(work);
    this.#waiting.set(key, { work, share, dueMs: afterMs.map((ms) => nowMs + ms) });
    if (coarser(work) !== undefined) this.#fine.add(key);
  }

  #drop(key: string): void {
    this.#waiting.delete(key);
    this.#fine.delete(key);
  }

  /** Replaces each item that has a coarser form. */
  #merge(afterMs: readonly number[]): void {
    this.#options.tooMany?.();
    for (const key of [...this.#fine]) {
      const entry = this.#waiting.get(key);
      this.#drop(key);
      const instead = entry && this.#options.coarser(entry.work);
      if (entry === undefined || instead === undefined) continue;
      this.#note(instead, afterMs, entry.share);
      this.#merged++;
    }
  }

  /** Reports whether a waiting item includes this one, and will be executed as late as this one. */
  #isIncluded({ work, dueMs }: WaitingWork<T>): boolean {
    const { keyOf, coarser } = this.#options;
    for (let more = coarser(work); more !== undefined; more = coarser(more)) {
      const held = this.#waiting.get(keyOf(more));
      if (held && (held.dueMs.at(-1) ?? 0) >= (dueMs.at(-1) ?? 0)) return true;
    }
    return false;
  }

  /** Executes due items. Never rejects. */
  async #work(): Promise<void> {
    const { signal } = this.#options;
    this.#isWorking = true;
    while (this.#waiting.size > 0 && !signal.aborted) {
      const beginMs = performance.now();
      const due = this.#due(beginMs);
      if (due.length > 0) {
        await this.#tryPass(due, beginMs);
        const tookMs = performance.now() - beginMs;
        this.#adjust(tookMs);
        await idle(PAUSE_FOR_EACH_PASS * Math.min(tookMs, PAUSE_MAX_MS), signal);
      }
      await this.#untilDue();
    }
    this.#lastPass.clear();
    this.#isWorking = false;
  }

  /** Returns the items of the next pass. Those that are out of date are dropped. */
  #due(nowMs: number): DueWork<T>[] {
    const byShare = new Map<string, DueWork<T>[]>();
    for (const [key, entry] of this.#waiting) {
      if ((entry.dueMs[0] ?? 0) > nowMs) continue;
      const ofShare = byShare.get(entry.share) ?? [];
      if (ofShare.length >= this.#atOnce) continue;
      byShare.set(entry.share, ofShare);
      if (this.#options.isOutOfDate(entry.work) || this.#isIncluded(entry)) this.#drop(key);
      else ofShare.push([key, entry]);
    }
    const shares = [...byShare].sort(([a], [b]) => (this.#lastPass.get(a) ?? 0) - (this.#lastPass.get(b) ?? 0));
    const taken = inTurn(
      shares.map(([, items]) => items),
      this.#atOnce,
    );
    this.#passes++;
    for (const [, { share }] of taken) this.#lastPass.set(share, this.#passes);
    return taken;
  }

  #adjust(tookMs: number): void {
    if (this.#options.costsEach !== true) return;
    if (tookMs > AT_ONCE.longMs) this.#atOnce = Math.max(1, this.#atOnce / 2);
    else if (tookMs < AT_ONCE.shortMs) this.#atOnce = Math.min(AT_ONCE.most, this.#atOnce * 2);
  }

  /** Executes a pass. Items that were added again meanwhile keep their new times. After a failure all that are due wait. */
  async #tryPass(due: readonly DueWork<T>[], beginMs: number): Promise<void> {
    const { pass, failed, signal } = this.#options;
    const retryMs = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.#failures);
    const isDone = await attempt(() => pass(due.map(([, { work }]) => work)), failed);
    if (signal.aborted) return;
    this.#failures = isDone ? 0 : this.#failures + 1;
    if (isDone) for (const [key, entry] of due) this.#finish(key, entry, beginMs);
    else this.#postpone(beginMs, performance.now() + retryMs);
  }

  /** Puts an executed item after all others, or removes it if it is not due again: those that come again do not delay the rest. */
  #finish(key: string, executed: WaitingWork<T>, beginMs: number): void {
    const now = this.#waiting.get(key);
    if (now === undefined) return;
    const dueMs = now === executed ? now.dueMs.filter((ms) => ms > beginMs) : now.dueMs;
    this.#waiting.delete(key);
    if (dueMs.length > 0) this.#waiting.set(key, { ...now, dueMs });
    else this.#fine.delete(key);
  }

  /** Items that were due are due at a later time instead, and at their own times after that. */
  #postpone(beginMs: number, againMs: number): void {
    for (const [key, entry] of [...this.#waiting]) {
      if ((entry.dueMs[0] ?? 0) > beginMs) continue;
      this.#waiting.set(key, { ...entry, dueMs: [againMs, ...entry.dueMs.filter((ms) => ms > againMs)] });
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

/** Takes one of each list in turn, at most this many. */
function inTurn<T>(lists: readonly (readonly T[])[], most: number): T[] {
  const taken: T[] = [];
  for (let at = 0; lists.some((list) => at < list.length); at++)
    for (const list of lists) {
      const next = list[at];
      if (next !== undefined) taken.push(next);
      if (taken.length >= most) return taken;
    }
  return taken;
}
