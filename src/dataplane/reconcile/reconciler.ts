import { idle } from '../../base/async/pause.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { BatchWriter, type WriteProgress } from './batch-writer.ts';
import { Comparison } from './comparison.ts';
import type { Dirty } from './desired-state.ts';
import { eachOnce } from './differences.ts';
import { foreignChanges } from './foreign-changes.ts';
import { type ObservedSnapshot, ObservedState } from './observed-state.ts';
import { type PlanBatch, without } from './plan-batch.ts';
import { Progress } from './progress.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import { BridgeRefill } from './refill.ts';
import type { OwnerFailure } from './refusals.ts';
import { RepairLedger } from './repair-ledger.ts';
import { Retries } from './retries.ts';
import type { Plan } from './target.ts';
import { UrgentPace } from './urgent-pace.ts';
import { WatchedTarget } from './watched-target.ts';

/** Maximum number of consecutive refusals that are attributed to changes by others. */
const MAX_IGNORED_REFUSALS = 3;

/** State of one round. */
type Round<K, V> = ObservedSnapshot<K, V> & WriteProgress<K, V>;

/**
 * Keeps a target equal to a desired state, whatever happens to either.
 *
 * Level-triggered: it compares the current desired state and never replays changes. A first start, a changed Service, a restart of OVS and
 * a failed write are the same round: observe if unsure, compare, apply. While the observed state is trusted, only dirty keys are compared;
 * otherwise all are, in slices.
 */
export class Reconciler<K extends string, V> {
  readonly #options: ReconcilerOptions<K, V>;
  readonly #bell = new Doorbell();
  readonly #progress: Progress;
  readonly #repairs: RepairLedger<K>;
  readonly #observed: ObservedState<K, V>;
  readonly #target: WatchedTarget<K, V>;
  readonly #writer: BatchWriter<K, V>;
  readonly #refill: BridgeRefill<K, V>;
  readonly #retries: Retries<K, V>;
  readonly #comparison: Comparison<K, V>;
  readonly #urgent: UrgentPace;
  /** Keys that must be compared although no owner changed them. */
  #recheck = new Set<K>();
  #observeTookMs = 0;
  /** Number of foreign changes that were found and are not repaired yet. */
  #repairing = 0;
  /** Time since which the target is not known to have everything desired. */
  #behindSinceMs: number | undefined;
  #goodMs: number | undefined;
  #lastError: SeineError | undefined;
  /** Error for callers that give up while the target is not ready, which is not a failure. */
  #notReady: SeineError | undefined;
  /** Number of consecutive refusals that were not trusted. */
  #doubts = 0;
  /**
   * Keys that have to change atomically, from all rounds since the last complete one: after a lost answer it is unknown whether they did.
   */
  #groups: readonly ReadonlySet<K>[] = [];
  /** Number of rounds begun. */
  #begun = 0;
  /** Round in progress. */
  #writing: Round<K, V> | undefined;

  constructor(options: ReconcilerOptions<K, V>) {
    this.#options = options;
    this.#progress = new Progress(options.name, () => this.#lastError ?? this.#notReady);
    this.#repairs = new RepairLedger(options.now);
    this.#observed = new ObservedState(options.now, () => this.#bell.ring());
    this.#target = new WatchedTarget(options.target, options.equal, options.blockedBy);
    this.#writer = new BatchWriter({ ...options, target: this.#target });
    this.#refill = new BridgeRefill(options.entryPoints);
    this.#retries = new Retries({ ...options, repairs: this.#repairs, writer: this.#writer, due: (keys) => this.#compareAgain(keys) });
    this.#comparison = new Comparison({ ...options, retries: this.#retries });
    this.#urgent = new UrgentPace(options);
  }

  /** Notifies the reconciler that the desired state may have changed. Cheap; may be called at any rate. */
  poke(): void {
    if (this.#options.desired.revision > this.#progress.realized) this.#behindSinceMs ??= this.#options.now();
    this.#bell.ring();
  }

  /** Marks the content of the target as unknown, e.g. because its connection is new: earlier acknowledgements no longer count. */
  invalidate(): void {
    this.#progress.fallBack();
    this.#observed.replaced();
  }

  /**
   * Marks the content as possibly changed by another process. Changes are searched for and repaired, but acknowledgements still count: a
   * flood of foreign changes must not delay callers.
   */
  recheck(): void {
    this.#observed.recheck();
  }

  /** Suspends the repair of foreign changes until `resume`. Desired changes are still written, and a replaced target is filled. */
  pause(): void {
    this.#observed.pause();
  }

  resume(): void {
    this.#observed.resume();
  }

  /**
   * Observes everything outside the rounds, which continue, and invalidates the observed state only if it finds a foreign change that no
   * event announced. For one caller at a time.
   *
   * @throws SeineError like the target's `observe`
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const { actual } = this.#observed;
    if (actual === undefined) return;
    const startedMs = this.#options.now();
    const differs = await this.#target.differsFrom(actual, signal);
    if (this.#observed.actual !== actual) return; // the target was replaced, or a round has observed it meanwhile
    this.#observed.looked(startedMs);
    this.#observeTookMs = this.#options.now() - startedMs;
    if (differs) this.recheck();
    else this.#goodMs = this.#options.now();
  }

  /**
   * Allows the removal of undesired entries. Before the sources have finished their first sync this would be too early; `which` selects the
   * keys of sources that have.
   */
  allowRemovals(which: (key: K, held: V) => boolean = () => true): void {
    this.#compareAgain(this.#comparison.allowRemovals(which, this.#observed.actual));
  }

  /** Withholds entry points from a target that is found without them, until `lead`. */
  withholdEntryPoints(): void {
    this.#refill.hold();
  }

  /**
   * Declares the desired state complete and releases the entry points. Resolves once the target is filled; at once if it was not emptied.
   */
  async lead(signal: AbortSignal): Promise<void> {
    this.#refill.release();
    if (this.#refill.isUnderWay) await this.confirmed(signal);
  }

  /** Newest revision that the target is known to have, refused owners excepted; -1 before the first round. */
  get realizedRevision(): number {
    return this.#progress.realized;
  }

  get lastError(): SeineError | undefined {
    return this.#lastError;
  }

  /**
   * Time since the target was last known to have the desired state, refused owners excepted (ms): after a round, or a check without
   * findings.
   */
  get ageMs(): number | undefined {
    return this.#goodMs === undefined ? undefined : this.#options.now() - this.#goodMs;
  }

  /** Age and duration of the last full check of the target (ms); undefined if there was none since it was last replaced. */
  get lastCheck(): { readonly ageMs: number; readonly tookMs: number } | undefined {
    return this.#observed.lastCheck;
  }

  /** Number of entries that another process changed, found and not repaired yet. */
  get repairing(): number {
    return this.#repairing;
  }

  /** Time for which the target has not been known to have everything desired (ms); undefined if it has, refused owners excepted. */
  get behindMs(): number | undefined {
    return this.#behindSinceMs === undefined ? undefined : this.#options.now() - this.#behindSinceMs;
  }

  /** Duration of the last full observation, without the repairs that followed it (ms). */
  get observeTookMs(): number {
    return this.#observeTookMs;
  }

  /** Known content of the target. */
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

  /** Resolves once the target has everything that was desired at `revision`; rejects if `signal` aborts first. */
  async realized(revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealized(revision, signal);
  }

  /** Resolves once the target was observed again and has the desired state, refused owners excepted. */
  async confirmed(signal: AbortSignal): Promise<void> {
    this.invalidate();
    await this.#progress.untilConfirmed(this.#observed.invalidations, signal);
  }

  /**
   * Resolves once a round that began after this call has ended: everything desired and removable by now was written, refused owners
   * excepted. Unlike `confirmed`, it does not observe known content again.
   */
  async roundMade(signal: AbortSignal): Promise<void> {
    const next = this.#begun + 1;
    this.#bell.ring();
    await this.#progress.untilMade(next, signal);
  }

  /** Like `realized`, for one owner, which may be ahead. @throws SeineError `REFUSED` if the target refuses this owner's entries */
  async realizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealizedFor(owner, revision, signal);
    const refusal = this.#writer.refusalOf(owner);
    if (refusal) throw refusal.error;
  }

  /** Reports whether the target is known to have all that `owner` wants now, or refuses it. */
  isHeld(owner: string): boolean {
    const held = this.#writing && this.#observed.stillOf(this.#writing) ? this.#writing.actual : this.#observed.actual;
    return held !== undefined && (this.#writer.refusalOf(owner) !== undefined || this.#comparison.isMet(owner, held));
  }

  /** Resolves once `isHeld` is true for all of these owners, whatever others wait for; rejects if `signal` aborts first. */
  async held(owners: Iterable<string>, signal: AbortSignal): Promise<void> {
    await this.#progress.untilAll(owners, (owner) => this.isHeld(owner), signal);
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
        this.#retries.arm(signal);
        await this.#bell.wait(signal);
        await this.#urgent.untilRested(signal);
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
    this.#refill.begin();
    const view = await this.#observed.snapshot(() => this.#target.observe(signal));
    if (view.source === 'observed') {
      this.#observeTookMs = this.#options.now() - startedMs;
      this.#refill.observed(view.actual);
    }
    const { actual, invalidatedAtMs, invalidations } = view;
    const drifted = view.source === 'observed' && (await this.#reportDrift(actual));
    const round: Round<K, V> = { ...view, isOutdated: () => this.#isOutdated(view), put: 0, removed: 0 };
    this.#writing = round;
    if (!this.#refill.isUnderWay) await this.#applyUrgent(round, [], signal);
    const { revision } = desired;
    const dirty = desired.takeDirty();
    this.#groups = [...this.#groups, ...dirty.groups];
    const concerned = this.#concerned(dirty);
    for (const key of this.#recheck) concerned.add(key);
    this.#recheck = new Set();
    const everything = eachOnce(desired.keys(), (key) => desired.wanted(key) !== undefined, actual.keys());
    await this.#apply(await this.#comparison.plan(view.source === 'observed' ? everything : concerned, actual), round, signal);
    this.#writer.clearMet((owner) => this.#comparison.isMet(owner, actual));
    const { put, removed } = round;
    if (put + removed > 0) this.#urgent.roundWritten();
    if (put + removed > 0) this.#options.events.round({ put, removed, tookMs: this.#options.now() - startedMs });
    if (drifted) this.#options.events.repaired(this.#options.now() - (invalidatedAtMs ?? startedMs));
    this.#writing = undefined;
    this.#doubts = 0;
    if (!this.#observed.keep(round)) return; // the target was replaced meanwhile; another round is due
    this.#groups = [];
    this.#goodMs = this.#options.now();
    this.#repairing = 0;
    this.#options.events.complete?.();
    this.#progress.reached(revision, invalidations, number);
    // Later changes came after the beginning of this round.
    this.#behindSinceMs = desired.revision > revision ? startedMs : undefined;
  }

  /**
   * Waits until the target is ready. A new connection invalidates the known content: an observation begun before it is up would be wasted,
   * for a hundred thousand entries.
   */
  async #untilReady(signal: AbortSignal): Promise<void> {
    this.#notReady = new SeineError('UNAVAILABLE', `${this.#options.name} cannot be observed yet`);
    await this.#target.ready(signal).finally(() => (this.#notReady = undefined));
  }

  #compareAgain(keys: Iterable<K>): void {
    for (const key of keys) this.#recheck.add(key);
    this.#bell.ring();
  }

  /** Returns the keys to compare after these changes. New desired entries are tried at once, without back-off. */
  #concerned({ keys, owners }: Dirty<K>): Set<K> {
    const concerned = new Set(keys);
    for (const key of keys) this.#repairs.clear(key);
    for (const owner of owners)
      if (this.#writer.clearRefusal(owner)) for (const key of this.#options.desired.keysOf(owner)) concerned.add(key);
    return concerned;
  }

  /**
   * Applies the urgent lane between two batches of the others, of which there may be thousands.
   *
   * @param queue batches still to be applied in this round: nothing in them is newer than what is written here
   */
  async #applyUrgent(round: Round<K, V>, queue: PlanBatch<K, V>[], signal: AbortSignal): Promise<void> {
    const { desired } = this.#options;
    if (desired.hasUrgent) await this.#urgent.untilDue(signal);
    const { revision } = desired;
    const urgent = desired.takeUrgent();
    if (urgent === undefined) return;
    const keys = this.#concerned(urgent);
    for (const [index, batch] of queue.entries()) queue[index] = without(batch, keys);
    const plan = await this.#comparison.plan(keys, round.actual);
    await this.#write(this.#writer.cut(plan), round, signal);
    if (plan.put.size + plan.remove.size > 0) this.#urgent.written();
    if (this.#observed.stillOf(round)) this.#progress.reachedFor(urgent.owners, revision);
  }

  async #apply(plan: Plan<K, V>, round: Round<K, V>, signal: AbortSignal): Promise<void> {
    const { batchSize, batchSizeWithUrgent = batchSize } = this.#options;
    const size = this.#urgent.isBusy ? batchSizeWithUrgent : batchSize;
    const queue = this.#writer.cut(this.#refill.withoutEntryPoints(plan), this.#groups, size);
    while (queue.length > 0) {
      if (!this.#refill.isUnderWay) await this.#applyUrgent(round, queue, signal);
      await this.#write(queue.splice(0, this.#options.sideBySide ?? 1), round, signal);
    }
    const entryPoints = this.#refill.finish();
    if (entryPoints) await this.#apply(await this.#comparison.plan(entryPoints, round.actual), round, signal);
  }

  async #write(queue: readonly PlanBatch<K, V>[], round: Round<K, V>, signal: AbortSignal): Promise<void> {
    try {
      await this.#writer.write(queue, round, signal);
      this.#progress.advanced();
    } catch (thrown) {
      const refused = thrown instanceof SeineError && thrown.code === 'REFUSED';
      if (refused && round.source === 'remembered')
        this.#observed.invalidate(); // e.g. a group that the flow needs is gone, and no event reported it
      else if (refused) this.#doubts++;
      throw thrown;
    }
  }

  /**
   * Reports whether the snapshot is out of date, e.g. groups were deleted after the groups and before the flows were read. Limited: another
   * process may change the target all the time.
   */
  #isOutdated({ invalidations }: ObservedSnapshot<K, V>): boolean {
    return this.#observed.invalidations !== invalidations && this.#doubts < MAX_IGNORED_REFUSALS;
  }

  /** @returns whether there were foreign changes */
  async #reportDrift(actual: ReadonlyMap<K, V>): Promise<boolean> {
    const lastTrusted = this.#observed.takeLastTrusted();
    if (lastTrusted === undefined) return false;
    const { keys, lost } = await foreignChanges(lastTrusted, actual, this.#options);
    if (keys.length === 0) return false;
    this.#repairs.note(keys, lastTrusted.size);
    this.#repairing = keys.length;
    this.#options.events.drift(keys);
    this.#options.events.lost?.(lost);
    return true;
  }
}
