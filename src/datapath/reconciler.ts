import { setImmediate as nextTurn } from 'node:timers/promises';
import { Doorbell } from '../async/doorbell.ts';
import { idle } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Dirty } from './desired-state.ts';
import { COMPARE_SLICE, differences, eachOnce } from './differences.ts';
import { Picture, type View } from './picture.ts';
import { type Portion, without } from './plan.ts';
import { PortionWriter, type Writing } from './portion-writer.ts';
import { Progress } from './progress.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import type { OwnerFailure } from './refusals.ts';
import { RepairLedger } from './repair-ledger.ts';
import type { Plan } from './target.ts';
import { WatchedTarget } from './watched-target.ts';

/** What one round knows and has done. */
type Round<K, V> = View<K, V> & Writing<K, V>;

/**
 * Keeps a target equal to a desired state, whatever happens to either.
 *
 * Level-triggered: it looks at what is wanted now, never at what changed. A first start, a changed
 * Service, a restart of OVS and a failed write are the same round: observe if unsure, compare, apply. While it trusts what
 * it knows, it compares only keys that are dirty; when it does not, it compares everything, in slices.
 */
export class Reconciler<K extends string, V> {
  readonly #options: ReconcilerOptions<K, V>;
  readonly #bell = new Doorbell();
  readonly #progress: Progress;
  readonly #repairs: RepairLedger<K>;
  readonly #picture: Picture<K, V>;
  readonly #target: WatchedTarget<K, V>;
  readonly #writer: PortionWriter<K, V>;
  /** Keys that must be compared although nobody's wish changed. */
  #recheck = new Set<K>();
  #lookTookMs = 0;
  #goodMs: number | undefined;
  /** What nobody wants and may go. */
  #mayRemove: (key: K, held: V) => boolean = () => false;
  /** What would have been removed if it might. */
  readonly #withheld = new Set<K>();
  #lastError: SeineError | undefined;
  /** When the timer for retries rings; `Infinity` while there is none. */
  #wakeAtMs = Infinity;

  constructor(options: ReconcilerOptions<K, V>) {
    this.#options = options;
    this.#progress = new Progress(options.name);
    this.#repairs = new RepairLedger(options.now);
    this.#picture = new Picture(options.now, () => this.#bell.ring());
    this.#target = new WatchedTarget(options.target, options.equal);
    this.#writer = new PortionWriter({ ...options, target: this.#target });
  }

  /** Say that the desired state may have changed. Cheap; call it as often as you like. */
  poke(): void {
    this.#bell.ring();
  }

  /** Say that the target may hold anything now, e.g. because its connection is new: what it acknowledged before is worth nothing. */
  distrust(): void {
    this.#progress.fallBack();
    this.#picture.replaced();
  }

  /**
   * Say that somebody else may have changed single entries. They are looked for and put back, but what the target acknowledges
   * meanwhile counts: a flood of foreign changes must not keep callers waiting.
   */
  suspect(): void {
    this.#picture.suspect();
  }

  /** Until `resume` nobody's suspicion counts: foreign changes stay. Wishes are made true, and a target that is another one filled. */
  pause(): void {
    this.#picture.pause();
  }

  resume(): void {
    this.#picture.resume();
  }

  /**
   * Looks at everything beside the rounds, which go on meanwhile, and begins to doubt only if somebody else changed something
   * that nobody told us of. For one caller at a time.
   *
   * @throws SeineError as the target's `observe`
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const { actual } = this.#picture;
    if (actual === undefined) return;
    const startedMs = this.#options.now();
    const differs = await this.#target.differsFrom(actual, signal);
    this.#lookTookMs = this.#options.now() - startedMs;
    if (differs && this.#picture.actual === actual) this.suspect();
    else if (!differs) this.#goodMs = this.#options.now();
  }

  /**
   * From now on what nobody wants is removed. Before every source has finished its first sync that would be too early; what
   * comes from sources that have is picked out by `which`.
   */
  allowRemovals(which: (key: K, held: V) => boolean = () => true): void {
    this.#mayRemove = which;
    for (const key of this.#withheld) this.#recheck.add(key);
    this.#withheld.clear();
    this.#bell.ring();
  }

  /** The newest revision that the target is known to hold, refused owners excepted; -1 before the first round. */
  get realizedRevision(): number {
    return this.#progress.realized;
  }

  get lastError(): SeineError | undefined {
    return this.#lastError;
  }

  /** Since the target was last known to hold what was wanted, refused owners excepted (ms): a round, or a look that found nothing. */
  get ageMs(): number | undefined {
    return this.#goodMs === undefined ? undefined : this.#options.now() - this.#goodMs;
  }

  /** What the last look at everything took (ms). */
  get lookTookMs(): number {
    return this.#lookTookMs;
  }

  /** What the target holds as far as we know. */
  actual(): ReadonlyMap<K, V> | undefined {
    return this.#picture.actual;
  }

  failures(): readonly OwnerFailure[] {
    return this.#writer.refusals();
  }

  /** Keys that somebody changes again and again, and which are therefore repaired more and more slowly. */
  contested(): ReadonlyMap<K, { readonly repairs: number; readonly nextMs: number }> {
    return this.#repairs.contested();
  }

  /** Resolves once the target holds everything that was wanted at `revision`; rejects if `signal` aborts first. */
  async realized(revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealized(revision, () => this.#lastError, signal);
  }

  /** Resolves once the target was observed anew and holds everything that is wanted, as far as it takes it. */
  async confirmed(signal: AbortSignal): Promise<void> {
    this.distrust();
    await this.#progress.untilConfirmed(this.#picture.doubts, () => this.#lastError, signal);
  }

  /**
   * As `realized`, for one owner: others may have to wait longer.
   *
   * @throws SeineError `REFUSED` if the target does not take what this owner wants
   */
  async realizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealizedFor(owner, revision, () => this.#lastError, signal);
    const refusal = this.#writer.refusalOf(owner);
    if (refusal) throw refusal.error;
  }

  /**
   * Runs until `signal` aborts.
   *
   * @throws SeineError `INVARIANT`; every other failure is reported and tried again.
   */
  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#bell.ring(), { once: true });
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#round(signal);
        if (failures > 0) this.#options.events.recovered?.();
        failures = 0;
        this.#lastError = undefined;
        this.#wakeForRetries(signal);
        await this.#bell.wait();
      } catch (thrown) {
        if (signal.aborted) return;
        const error = SeineError.from(thrown, `reconcile ${this.#options.name}`);
        if (error.remedy === 'crash') throw error;
        this.#picture.forget();
        this.#lastError = error;
        this.#options.events.failure(error);
        await idle(this.#options.backoffMs(++failures), signal);
      }
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    const startedMs = this.#options.now();
    const { desired } = this.#options;
    const view = await this.#picture.view(() => this.#target.observe(signal));
    const { actual, doubtedAtMs, doubts } = view;
    const drifted = view.source === 'observed' && (await this.#reportDrift(actual));
    const round: Round<K, V> = { ...view, put: 0, removed: 0 };
    await this.#hurry(round, [], signal);
    const { revision } = desired;
    const concerned = this.#concerned(desired.takeDirty());
    for (const key of this.#recheck) concerned.add(key);
    this.#recheck = new Set();
    const everything = eachOnce(desired.keys(), (key) => desired.wanted(key) !== undefined, actual.keys());
    await this.#apply(await this.#compare(view.source === 'observed' ? everything : concerned, actual), round, signal);
    const { put, removed } = round;
    if (put + removed > 0) this.#options.events.round({ put, removed, tookMs: this.#options.now() - startedMs });
    if (drifted) this.#options.events.repaired(this.#options.now() - (doubtedAtMs ?? startedMs));
    if (view.source === 'observed') this.#lookTookMs = this.#options.now() - startedMs;
    if (!this.#picture.keep(round)) return; // what we just learnt is stale; the bell has rung for another round
    this.#goodMs = this.#options.now();
    this.#progress.reached(revision, doubts);
  }

  /** What to compare after these changes. What is newly wished for is tried at once. */
  #concerned({ keys, owners }: Dirty<K>): Set<K> {
    const concerned = new Set(keys);
    for (const key of keys) this.#repairs.forgive(key);
    for (const owner of owners) if (this.#writer.forgive(owner)) for (const key of this.#options.desired.keysOf(owner)) concerned.add(key);
    return concerned;
  }

  /**
   * Those who cannot wait get theirs between two portions of what the others want, who may be thousands.
   *
   * @param queue what is still to be applied of the round: nothing in it is newer than what is done here
   */
  async #hurry(round: Round<K, V>, queue: Portion<K, V>[], signal: AbortSignal): Promise<void> {
    const { desired } = this.#options;
    const { revision } = desired;
    const urgent = desired.takeUrgent();
    if (urgent === undefined) return;
    const keys = this.#concerned(urgent);
    for (const [index, portion] of queue.entries()) queue[index] = without(portion, keys);
    const plan = await this.#compare(keys, round.actual);
    await this.#write(this.#writer.cut(plan), round, signal);
    if (this.#picture.stillOf(round)) this.#progress.reachedFor(urgent.owners, revision);
  }

  async #compare(keys: Iterable<K>, actual: Map<K, V>): Promise<Plan<K, V>> {
    const { desired, equal, now } = this.#options;
    const put = new Map<K, V>();
    const remove = new Set<K>();
    let compared = 0;
    for (const key of keys) {
      if (++compared % COMPARE_SLICE === 0) await nextTurn();
      const wanted = desired.wanted(key);
      const held = actual.get(key);
      if (wanted === undefined) {
        if (held !== undefined) (this.#mayRemove(key, held) ? remove : this.#withheld).add(key);
        continue;
      }
      this.#withheld.delete(key);
      if (held !== undefined && equal(held, wanted)) {
        // One copy of key and value, not two: setting alone would keep the key that is there.
        actual.delete(key);
        actual.set(key, wanted);
      } else if (!this.#waits(key, now())) put.set(key, wanted);
    }
    return { put, remove };
  }

  /** True for a key that is left alone for now: its owner was refused lately, or somebody fights us over it. */
  #waits(key: K, nowMs: number): boolean {
    return this.#repairs.mustWait(key, nowMs) || this.#writer.mustWait(key, nowMs);
  }

  async #apply(plan: Plan<K, V>, round: Round<K, V>, signal: AbortSignal): Promise<void> {
    const queue = this.#writer.cut(plan);
    while (queue.length > 0) {
      await this.#hurry(round, queue, signal);
      await this.#write(queue.splice(0, 1), round, signal);
    }
  }

  async #write(queue: readonly Portion<K, V>[], round: Round<K, V>, signal: AbortSignal): Promise<void> {
    try {
      await this.#writer.write(queue, round, signal);
    } catch (thrown) {
      const refused = thrown instanceof SeineError && thrown.code === 'REFUSED';
      if (refused && round.source === 'remembered') this.#picture.doubt(); // perhaps a group is gone that the flow needs, and nobody said so
      throw thrown;
    }
  }

  /** @returns whether there was any */
  async #reportDrift(actual: ReadonlyMap<K, V>): Promise<boolean> {
    const believed = this.#picture.takeBelieved();
    if (believed === undefined) return false;
    const drifted: K[] = [];
    for await (const key of differences(believed, actual, this.#options.equal)) drifted.push(key);
    if (drifted.length === 0) return false;
    this.#repairs.note(drifted, believed.size);
    this.#options.events.drift(drifted);
    return true;
  }

  /** Refused owners and contested keys are looked at again when their time comes, without anybody ringing. */
  #wakeForRetries(signal: AbortSignal): void {
    const due = Math.min(this.#repairs.nextMs() ?? Infinity, this.#writer.nextMs());
    if (due >= this.#wakeAtMs) return;
    this.#wakeAtMs = due;
    void idle(Math.max(0, due - this.#options.now()) + 1, signal).then(() => {
      this.#wakeAtMs = Infinity;
      for (const { owner } of this.#writer.refusals()) for (const key of this.#options.desired.keysOf(owner)) this.#recheck.add(key);
      for (const key of this.#repairs.contested().keys()) this.#recheck.add(key);
      this.#bell.ring();
    });
  }
}
