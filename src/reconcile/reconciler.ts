import { setImmediate as nextTurn } from 'node:timers/promises';
import { Doorbell } from '../async/doorbell.ts';
import { idle } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import { BatchWriter, type WriteProgress } from './batch-writer.ts';
import type { Dirty } from './desired-state.ts';
import { COMPARE_SLICE, differences, eachOnce } from './differences.ts';
import { Filling } from './filling.ts';
import { type ObservedSnapshot, ObservedState } from './observed-state.ts';
import { type PlanBatch, without } from './plan-batch.ts';
import { Progress } from './progress.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import type { OwnerFailure } from './refusals.ts';
import { RepairLedger } from './repair-ledger.ts';
import type { Plan } from './target.ts';
import { WatchedTarget } from './watched-target.ts';

/** So often in a row a refusal is put down to what others changed meanwhile. */
const doubtsMost = 3;

/** The state of one round. */
type Round<K, V> = ObservedSnapshot<K, V> & WriteProgress<K, V>;

/**
 * Keeps a target equal to a desired state, whatever happens to either.
 *
 * Level-triggered: it compares what is wanted now, never what changed. A first start, a changed
 * Service, a restart of OVS and a failed write are the same round: observe if unsure, compare, apply. While the observed state is
 * trusted, only dirty keys are compared; otherwise everything is, in slices.
 */
export class Reconciler<K extends string, V> {
  readonly #options: ReconcilerOptions<K, V>;
  readonly #bell = new Doorbell();
  readonly #progress: Progress;
  readonly #repairs: RepairLedger<K>;
  readonly #observed: ObservedState<K, V>;
  readonly #target: WatchedTarget<K, V>;
  readonly #writer: BatchWriter<K, V>;
  readonly #filling: Filling<K, V>;
  /** Keys that must be compared although no owner changed them. */
  #recheck = new Set<K>();
  #observeTookMs = 0;
  #lastLook: { readonly beganMs: number; readonly tookMs: number } | undefined;
  /** Foreign changes that were found and are not repaired yet. */
  #repairing = 0;
  /** Since when something is wanted that the target is not known to hold. */
  #behindSinceMs: number | undefined;
  #goodMs: number | undefined;
  /** Which unwanted keys may be removed. */
  #mayRemove: (key: K, held: V) => boolean = () => false;
  /** Keys whose removal is not allowed yet. */
  readonly #withheld = new Set<K>();
  #lastError: SeineError | undefined;
  /** Said to those who give up waiting while the target is waited for, which is no failure. */
  #notReady: SeineError | undefined;
  /** Refusals in a row that were not believed. */
  #doubts = 0;
  /** Keys that have to change at once, of all rounds since the last one that was whole: after a lost answer nobody knows whether they did. */
  #groups: readonly ReadonlySet<K>[] = [];
  /** Rounds that were begun. */
  #begun = 0;
  /** The round that is under way. */
  #writing: Round<K, V> | undefined;
  /** When the retry timer fires; `Infinity` while there is none. */
  #wakeAtMs = Infinity;
  /** When urgent changes were written last. */
  #urgentWrittenMs = -Infinity;

  constructor(options: ReconcilerOptions<K, V>) {
    this.#options = options;
    this.#progress = new Progress(options.name, () => this.#lastError ?? this.#notReady);
    this.#repairs = new RepairLedger(options.now);
    this.#observed = new ObservedState(options.now, () => this.#bell.ring());
    this.#target = new WatchedTarget(options.target, options.equal, options.blockedBy);
    this.#writer = new BatchWriter({ ...options, target: this.#target });
    this.#filling = new Filling(options.front);
  }

  /** The desired state may have changed. Cheap; may be called at any rate. */
  poke(): void {
    if (this.#options.desired.revision > this.#progress.realized) this.#behindSinceMs ??= this.#options.now();
    this.#bell.ring();
  }

  /** The target may hold anything now, e.g. because its connection is new: earlier acknowledgements no longer count. */
  invalidate(): void {
    this.#progress.fallBack();
    this.#lastLook = undefined;
    this.#observed.replaced();
  }

  /**
   * Another process may have changed single entries. They are looked for and repaired, but what the target acknowledges
   * meanwhile counts: a flood of foreign changes must not keep callers waiting.
   */
  recheck(): void {
    this.#observed.recheck();
  }

  /** Until `resume`, foreign changes are not repaired. Wanted changes are written, and a replaced target is filled. */
  pause(): void {
    this.#observed.pause();
  }

  resume(): void {
    this.#observed.resume();
  }

  /**
   * Observes everything beside the rounds, which go on meanwhile, and invalidates the observed state only if it finds a foreign
   * change that no event announced. For one caller at a time.
   *
   * @throws SeineError as the target's `observe`
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const { actual } = this.#observed;
    if (actual === undefined) return;
    const startedMs = this.#options.now();
    const differs = await this.#target.differsFrom(actual, signal);
    this.#looked(startedMs);
    this.#observeTookMs = this.#options.now() - startedMs;
    if (differs && this.#observed.actual === actual) this.recheck();
    else if (!differs) this.#goodMs = this.#options.now();
  }

  /**
   * From now on unwanted entries are removed. Before every source has finished its first sync that would be too early; `which`
   * selects the keys of sources that have.
   */
  allowRemovals(which: (key: K, held: V) => boolean = () => true): void {
    this.#mayRemove = which;
    const held = this.#observed.actual;
    for (const key of this.#withheld) {
      const value = held?.get(key);
      if (value !== undefined && !which(key, value)) continue; // of many thousands, none may go for a while
      this.#recheck.add(key);
      this.#withheld.delete(key);
    }
    this.#bell.ring();
  }

  /** Until `lead`, a target that is found without what leads packets in stays without it. */
  holdFront(): void {
    this.#filling.hold();
  }

  /** Everything that is known is wanted by now. Resolves once the target is filled; at once where it was not emptied. */
  async lead(signal: AbortSignal): Promise<void> {
    this.#filling.release();
    if (this.#filling.isUnderWay) await this.confirmed(signal);
  }

  /** The newest revision that the target is known to hold, refused owners excepted; -1 before the first round. */
  get realizedRevision(): number {
    return this.#progress.realized;
  }

  get lastError(): SeineError | undefined {
    return this.#lastError;
  }

  /** When the target was last known to hold the wanted state, refused owners excepted (ms): after a round, or a sweep without findings. */
  get ageMs(): number | undefined {
    return this.#goodMs === undefined ? undefined : this.#options.now() - this.#goodMs;
  }

  /** The last time when everything that the target holds was looked at, if that was since it was last replaced (ms). */
  get lastLook(): { readonly ageMs: number; readonly tookMs: number } | undefined {
    if (this.#lastLook === undefined) return undefined;
    const { beganMs, tookMs } = this.#lastLook;
    return { ageMs: this.#options.now() - beganMs, tookMs };
  }

  /** Entries that another process changed, found and not repaired yet. */
  get repairing(): number {
    return this.#repairing;
  }

  /** How long something is wanted that the target is not known to hold (ms); undefined if it holds everything, refused owners excepted. */
  get behindMs(): number | undefined {
    return this.#behindSinceMs === undefined ? undefined : this.#options.now() - this.#behindSinceMs;
  }

  /** Duration of the last full observation (ms), of a round with what it wrote. */
  get observeTookMs(): number {
    return this.#observeTookMs;
  }

  /** What the target is known to hold. */
  actual(): ReadonlyMap<K, V> | undefined {
    return this.#observed.actual;
  }

  failures(): readonly OwnerFailure[] {
    return this.#writer.refusals();
  }

  /** Keys that another process changes repeatedly, and which are therefore repaired at growing intervals. */
  contested(): ReadonlyMap<K, { readonly repairs: number; readonly nextMs: number }> {
    return this.#repairs.contested();
  }

  /** Resolves once the target holds everything that was wanted at `revision`; rejects if `signal` aborts first. */
  async realized(revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealized(revision, signal);
  }

  /** Resolves once the target was observed anew and holds the wanted state, refused owners excepted. */
  async confirmed(signal: AbortSignal): Promise<void> {
    this.invalidate();
    await this.#progress.untilConfirmed(this.#observed.invalidations, signal);
  }

  /**
   * Resolves once a round is over that began after this call: what was wanted by now, and what may be removed, was written, refused owners excepted. Unlike
   * `confirmed` it has nothing looked at that is known.
   */
  async roundMade(signal: AbortSignal): Promise<void> {
    const next = this.#begun + 1;
    this.#bell.ring();
    await this.#progress.untilMade(next, signal);
  }

  /**
   * As `realized`, for one owner, which may be ahead of the others.
   *
   * @throws SeineError `REFUSED` if the target refuses what this owner wants
   */
  async realizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealizedFor(owner, revision, signal);
    const refusal = this.#writer.refusalOf(owner);
    if (refusal) throw refusal.error;
  }

  /** Whether the target is known to hold all that `owner` wants now, or refuses it. */
  isHeld(owner: string): boolean {
    const held = this.#writing && this.#observed.stillOf(this.#writing) ? this.#writing.actual : this.#observed.actual;
    return held !== undefined && (this.#writer.refusalOf(owner) !== undefined || this.#isMet(owner, held));
  }

  /** Resolves once `isHeld` of all of these, whatever others wait for; rejects if `signal` aborts first. */
  async held(owners: Iterable<string>, signal: AbortSignal): Promise<void> {
    const missing = new Set(owners);
    const areHeld = (): boolean => {
      for (const owner of missing) {
        if (!this.isHeld(owner)) return false; // asked after each part of a round, and there may be a hundred thousand behind it
        missing.delete(owner);
      }
      return true;
    };
    await this.#progress.until(areHeld, signal);
  }

  /**
   * Runs until `signal` aborts.
   *
   * @throws SeineError `INVARIANT`; every other failure is reported and retried.
   */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#round(signal);
        if (failures > 0) this.#options.events.recovered?.();
        failures = 0;
        this.#lastError = undefined;
        this.#wakeForRetries(signal);
        await this.#bell.wait(signal);
        // What has come with what rang is done together, behind answers that wait for nothing.
        if (this.#gatherMs > 0) await nextTurn();
      } catch (thrown) {
        this.#writing = undefined;
        if (signal.aborted) return;
        const error = SeineError.from(thrown, `reconcile ${this.#options.name}`);
        if (error.remedy === 'crash') throw error;
        this.#observed.forget();
        this.#lastError = error;
        this.#options.events.failure(error);
        await idle(this.#options.backoffMs(++failures), signal);
      }
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    if (this.#observed.actual === undefined) await this.#untilReady(signal);
    const number = ++this.#begun;
    const startedMs = this.#options.now();
    const { desired } = this.#options;
    this.#filling.begin();
    const view = await this.#observed.snapshot(() => this.#target.observe(signal));
    if (view.source === 'observed' && this.#observed.stillOf(view)) this.#looked(startedMs);
    if (view.source === 'observed') this.#filling.looked(view.actual);
    const { actual, invalidatedAtMs, invalidations } = view;
    const drifted = view.source === 'observed' && (await this.#reportDrift(actual));
    const round: Round<K, V> = { ...view, isOutdated: () => this.#isOutdated(view), put: 0, removed: 0 };
    this.#writing = round;
    if (!this.#filling.isUnderWay) await this.#applyUrgent(round, [], signal);
    const { revision } = desired;
    const dirty = desired.takeDirty();
    this.#groups = [...this.#groups, ...dirty.groups];
    const concerned = this.#concerned(dirty);
    for (const key of this.#recheck) concerned.add(key);
    this.#recheck = new Set();
    const everything = eachOnce(desired.keys(), (key) => desired.wanted(key) !== undefined, actual.keys());
    await this.#apply(await this.#compare(view.source === 'observed' ? everything : concerned, actual), round, signal);
    this.#clearMetRefusals(actual);
    const { put, removed } = round;
    if (put + removed > 0) this.#options.events.round({ put, removed, tookMs: this.#options.now() - startedMs });
    if (drifted) this.#options.events.repaired(this.#options.now() - (invalidatedAtMs ?? startedMs));
    if (view.source === 'observed') this.#observeTookMs = this.#options.now() - startedMs;
    this.#writing = undefined;
    this.#doubts = 0;
    if (!this.#observed.keep(round)) return; // the target was replaced meanwhile; another round is due
    this.#groups = [];
    this.#goodMs = this.#options.now();
    this.#repairing = 0;
    this.#progress.reached(revision, invalidations, number);
    // What was wanted meanwhile came after the beginning of this round.
    this.#behindSinceMs = desired.revision > revision ? startedMs : undefined;
  }

  /** A new connection invalidates what is known: a look that was begun before it is there would be one for nothing, of a hundred thousand entries. */
  async #untilReady(signal: AbortSignal): Promise<void> {
    this.#notReady = new SeineError('UNAVAILABLE', `${this.#options.name} cannot be looked at yet`);
    await this.#target.ready(signal).finally(() => (this.#notReady = undefined));
  }

  #looked(beganMs: number): void {
    this.#lastLook = { beganMs, tookMs: this.#options.now() - beganMs };
  }

  /** The keys to compare after these changes. Newly wanted entries are tried at once, without back-off. */
  #concerned({ keys, owners }: Dirty<K>): Set<K> {
    const concerned = new Set(keys);
    for (const key of keys) this.#repairs.clear(key);
    for (const owner of owners)
      if (this.#writer.clearRefusal(owner)) for (const key of this.#options.desired.keysOf(owner)) concerned.add(key);
    return concerned;
  }

  /**
   * The urgent lane: urgent owners are served between two batches of the others, which may be thousands.
   *
   * @param queue the batches still to be applied in this round: nothing in them is newer than what is done here
   */
  async #applyUrgent(round: Round<K, V>, queue: PlanBatch<K, V>[], signal: AbortSignal): Promise<void> {
    const { desired } = this.#options;
    await this.#gatherUrgent(signal);
    const { revision } = desired;
    const urgent = desired.takeUrgent();
    if (urgent === undefined) return;
    const keys = this.#concerned(urgent);
    for (const [index, batch] of queue.entries()) queue[index] = without(batch, keys);
    const plan = await this.#compare(keys, round.actual);
    await this.#write(this.#writer.cut(plan), round, signal);
    if (plan.put.size + plan.remove.size > 0) this.#urgentWrittenMs = this.#options.now();
    if (this.#observed.stillOf(round)) this.#progress.reachedFor(urgent.owners, revision);
  }

  /** One alone is written at once; those that come right behind others are written together, which is less work for the target than one by one. */
  async #gatherUrgent(signal: AbortSignal): Promise<void> {
    const { desired, now } = this.#options;
    const leftMs = this.#urgentWrittenMs + this.#gatherMs - now();
    if (leftMs > 0 && desired.hasUrgent) await idle(leftMs, signal);
  }

  get #gatherMs(): number {
    return this.#options.gatherMs ?? 0;
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
      } else if (!this.#isBackedOff(key, now())) put.set(key, wanted);
    }
    // What has come to be wanted meanwhile was compared in part.
    for (const group of desired.groups)
      for (const key of group) {
        put.delete(key);
        remove.delete(key);
      }
    return { put, remove };
  }

  /** Refused owners whose entries are all there now, by another hand: nothing will be written for them. */
  #clearMetRefusals(actual: ReadonlyMap<K, V>): void {
    for (const { owner } of this.#writer.refusals()) if (this.#isMet(owner, actual)) this.#writer.clearRefusal(owner);
  }

  #isMet(owner: string, actual: ReadonlyMap<K, V>): boolean {
    const { desired, equal } = this.#options;
    return desired.keysOf(owner).every((key) => {
      const [held, wanted] = [actual.get(key), desired.wanted(key)];
      return held !== undefined && wanted !== undefined && equal(held, wanted);
    });
  }

  /** True for a key that is left alone for now: its owner was refused, or another process keeps changing it. */
  #isBackedOff(key: K, nowMs: number): boolean {
    return this.#repairs.isBackedOff(key, nowMs) || this.#writer.isBackedOff(key, nowMs);
  }

  async #apply(plan: Plan<K, V>, round: Round<K, V>, signal: AbortSignal): Promise<void> {
    const queue = this.#writer.cut(this.#filling.behind(plan), this.#groups);
    while (queue.length > 0) {
      if (!this.#filling.isUnderWay) await this.#applyUrgent(round, queue, signal);
      await this.#write(queue.splice(0, this.#options.sideBySide ?? 1), round, signal);
    }
    const front = this.#filling.finish();
    if (front) await this.#apply(await this.#compare(front, round.actual), round, signal);
  }

  async #write(queue: readonly PlanBatch<K, V>[], round: Round<K, V>, signal: AbortSignal): Promise<void> {
    try {
      await this.#writer.write(queue, round, signal);
      this.#progress.advanced();
    } catch (thrown) {
      const refused = thrown instanceof SeineError && thrown.code === 'REFUSED';
      if (refused && round.source === 'remembered')
        this.#observed.invalidate(); // e.g. a group that the flow needs is gone, and no event said so
      else if (refused) this.#doubts++;
      throw thrown;
    }
  }

  /** E.g. groups were deleted between the looks at groups and at flows. Not for ever: somebody may change the target all the time. */
  #isOutdated({ invalidations }: ObservedSnapshot<K, V>): boolean {
    return this.#observed.invalidations !== invalidations && this.#doubts < doubtsMost;
  }

  /** @returns whether there was any */
  async #reportDrift(actual: ReadonlyMap<K, V>): Promise<boolean> {
    const lastTrusted = this.#observed.takeLastTrusted();
    if (lastTrusted === undefined) return false;
    const drifted: K[] = [];
    for await (const key of differences(lastTrusted, actual, this.#options.equal))
      if (this.#isForeign(key, lastTrusted, actual)) drifted.push(key);
    if (drifted.length === 0) return false;
    this.#repairs.note(drifted, lastTrusted.size);
    this.#repairing = drifted.length;
    this.#options.events.drift(drifted);
    return true;
  }

  /** Not what is only wanted since, and may be looked at for the first time; nor what something that was wanted has left behind. */
  #isForeign(key: K, lastTrusted: ReadonlyMap<K, V>, actual: ReadonlyMap<K, V>): boolean {
    if (lastTrusted.has(key)) return true;
    const { desired, target } = this.#options;
    const value = actual.get(key);
    if (desired.isDirty(key) || value === undefined) return false;
    return desired.wanted(key) !== undefined || target.isLeftover?.(key, value) !== true;
  }

  /** Refused owners and contested keys are retried when their back-off ends, without an event. */
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
