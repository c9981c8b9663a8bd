import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Doorbell } from '../async/doorbell.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Dirty } from './desired-state.ts';
import { COMPARE_SLICE, differences, eachOnce } from './differences.ts';
import { halves, type Portion, portions, without } from './plan.ts';
import { Progress } from './progress.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import { type OwnerFailure, Refusals } from './refusals.ts';
import { RepairLedger } from './repair-ledger.ts';
import { type Plan, visitAll } from './target.ts';

/** What one round knows and has done. */
interface Round<K, V> {
  readonly actual: Map<K, V>;
  /** Whether `actual` was looked at in this round; if not, a refusal may only say that it is wrong. */
  readonly picture: 'fresh' | 'remembered';
  /** How often the target was another one when the round began. */
  readonly replaced: number;
  put: number;
  removed: number;
}

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
  readonly #refused = new Refusals();
  readonly #repairs: RepairLedger<K>;
  /** What the target holds, or `undefined` when that is not known and must be observed. */
  #actual: Map<K, V> | undefined;
  /** What we believed before we began to doubt; only to say what somebody else changed. */
  #believed: Map<K, V> | undefined;
  /** When we began to doubt. */
  #doubtedAtMs: number | undefined;
  /** Keys that must be compared although nobody's wish changed. */
  #recheck = new Set<K>();
  /** How often the target was distrusted, and how often for being another one than before. */
  #distrusted = 0;
  #replaced = 0;
  #lookTookMs = 0;
  #goodMs: number | undefined;
  /** What was written since a sweep began; absent while there is none. */
  #written: Set<K> | undefined;
  #paused = false;
  /** Somebody was suspicious while it was paused. */
  #postponed = false;
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
  }

  /** Say that the desired state may have changed. Cheap; call it as often as you like. */
  poke(): void {
    this.#bell.ring();
  }

  /** Say that the target may hold anything now, e.g. because its connection is new: what it acknowledged before is worth nothing. */
  distrust(): void {
    this.#replaced++;
    this.#progress.fallBack();
    this.#doubt();
  }

  /**
   * Say that somebody else may have changed single entries. They are looked for and put back, but what the target acknowledges
   * meanwhile counts: a flood of foreign changes must not keep callers waiting.
   */
  suspect(): void {
    if (this.#paused) this.#postponed = true;
    else this.#doubt();
  }

  /** Until `resume` nobody's suspicion counts: foreign changes stay. Wishes are made true, and a target that is another one filled. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (!this.#postponed) return;
    this.#postponed = false;
    this.#doubt();
  }

  #doubt(): void {
    this.#believed ??= this.#actual;
    this.#doubtedAtMs ??= this.#options.now();
    this.#actual = undefined;
    this.#distrusted++;
    this.#bell.ring();
  }

  /**
   * Looks at everything beside the rounds, which go on meanwhile, and begins to doubt only if somebody else changed something
   * that nobody told us of. For one caller at a time.
   *
   * @throws SeineError as the target's `observe`
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const actual = this.#actual;
    if (actual === undefined) return;
    this.#written = new Set();
    try {
      const startedMs = this.#options.now();
      const differs = await this.#differs(actual, this.#written, signal);
      this.#lookTookMs = this.#options.now() - startedMs;
      if (differs && this.#actual === actual) this.suspect();
      else if (!differs) this.#goodMs = this.#options.now();
    } finally {
      this.#written = undefined;
    }
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
    return this.#actual;
  }

  failures(): readonly OwnerFailure[] {
    return this.#refused.list();
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
    const doubt = this.#distrusted;
    await this.#progress.untilConfirmed(doubt, () => this.#lastError, signal);
  }

  /**
   * As `realized`, for one owner: others may have to wait longer.
   *
   * @throws SeineError `REFUSED` if the target does not take what this owner wants
   */
  async realizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void> {
    await this.#progress.untilRealizedFor(owner, revision, () => this.#lastError, signal);
    const refusal = this.#refused.get(owner);
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
        this.#actual = undefined;
        this.#lastError = error;
        this.#options.events.failure(error);
        await pause(this.#options.backoffMs(++failures), signal);
      }
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    const startedMs = this.#options.now();
    const { desired, target } = this.#options;
    const [distrusted, replaced] = [this.#distrusted, this.#replaced];
    const observed = this.#actual === undefined;
    const actual = this.#actual ?? (await target.observe(signal));
    const doubtedAtMs = this.#doubtedAtMs;
    if (observed) this.#doubtedAtMs = undefined;
    const drifted = observed && (await this.#reportDrift(actual));
    const round: Round<K, V> = { actual, picture: observed ? 'fresh' : 'remembered', replaced, put: 0, removed: 0 };
    await this.#hurry(round, [], signal);
    const { revision } = desired;
    const concerned = this.#concerned(desired.takeDirty());
    for (const key of this.#recheck) concerned.add(key);
    this.#recheck = new Set();
    const everything = eachOnce(desired.keys(), (key) => desired.wanted(key) !== undefined, actual.keys());
    await this.#apply(await this.#compare(observed ? everything : concerned, actual), round, signal);
    if (round.put + round.removed > 0) this.#reportRound(round, startedMs);
    if (drifted) this.#options.events.repaired(this.#options.now() - (doubtedAtMs ?? startedMs));
    if (observed) this.#lookTookMs = this.#options.now() - startedMs;
    if (this.#replaced !== replaced) return; // what we just learnt is stale; the bell has rung for another round
    if (this.#distrusted === distrusted) this.#actual = actual;
    else this.#believed = actual;
    this.#goodMs = this.#options.now();
    this.#progress.reached(revision, distrusted);
  }

  #reportRound({ put, removed }: Round<K, V>, startedMs: number): void {
    this.#options.events.round({ put, removed, tookMs: this.#options.now() - startedMs });
  }

  /** What to compare after these changes. What is newly wished for is tried at once. */
  #concerned({ keys, owners }: Dirty<K>): Set<K> {
    const concerned = new Set(keys);
    for (const key of keys) this.#repairs.forgive(key);
    for (const owner of owners) if (this.#forgive(owner)) for (const key of this.#options.desired.keysOf(owner)) concerned.add(key);
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
    await this.#applyEach(this.#cut(plan), round, signal);
    if (this.#replaced === round.replaced) this.#progress.reachedFor(urgent.owners, revision);
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
    if (this.#repairs.mustWait(key, nowMs)) return true;
    return this.#refused.mustWait(this.#ownerOf(key), nowMs);
  }

  async #apply(plan: Plan<K, V>, round: Round<K, V>, signal: AbortSignal): Promise<void> {
    const queue = this.#cut(plan);
    while (queue.length > 0) {
      await this.#hurry(round, queue, signal);
      await this.#applyEach(queue.splice(0, 1), round, signal);
    }
  }

  #cut(plan: Plan<K, V>): Portion<K, V>[] {
    return portions(plan, (key) => this.#ownerOf(key), this.#options.portionSize);
  }

  async #applyEach(queue: Portion<K, V>[], round: Round<K, V>, signal: AbortSignal): Promise<void> {
    const { actual, picture } = round;
    for (let portion = queue.shift(); portion !== undefined; portion = queue.shift()) {
      for (const key of [...portion.put.keys(), ...portion.remove]) this.#written?.add(key);
      try {
        await this.#options.target.apply(portion, signal);
      } catch (thrown) {
        const error = SeineError.from(thrown, `apply to ${this.#options.name}`);
        if (error.code !== 'REFUSED') throw error;
        if (picture === 'remembered') {
          this.#doubt(); // perhaps a group is gone that the flow needs, and nobody said so
          throw error;
        }
        queue.unshift(...this.#isolate(portion, error));
        continue;
      }
      for (const owner of portion.owners) this.#forgive(owner);
      for (const [key, value] of portion.put) actual.set(key, value);
      for (const key of portion.remove) actual.delete(key);
      round.put += portion.put.size;
      round.removed += portion.remove.size;
    }
  }

  /** True if this owner was refused. */
  #forgive(owner: string): boolean {
    const was = this.#refused.delete(owner);
    if (was) this.#options.events.accepted?.(owner);
    return was;
  }

  /**
   * A refused portion in halves, until one owner is left, who is then set aside: one bad wish must not hold up the others.
   * What others want as well is tried for them.
   *
   * @throws the refusal itself if removals alone were refused: then our picture of the target is wrong
   */
  #isolate(portion: Portion<K, V>, error: SeineError): Portion<K, V>[] {
    const [owner] = portion.owners;
    if (owner === undefined) throw error;
    if (portion.owners.length > 1) return halves(portion, (key) => this.#ownerOf(key));
    this.#refused.note(owner, error, this.#options.now());
    this.#options.events.refused(owner, error);
    const put = new Map([...portion.put].filter(([key]) => this.#ownerOf(key) !== owner));
    return portions({ put, remove: portion.remove }, (key) => this.#ownerOf(key), this.#options.portionSize);
  }

  /**
   * Leaves out what was written meanwhile: it may have been seen before or after. What is gone is found by counting, as nothing that
   * is seen is kept: beside something that was seen and then written it may be missed, until the next sweep.
   */
  async #differs(actual: ReadonlyMap<K, V>, written: ReadonlySet<K>, signal: AbortSignal): Promise<boolean> {
    const { target, equal } = this.#options;
    let [same, differs] = [0, false];
    const see = (key: K, value: V): void => {
      if (written.has(key)) return;
      const held = actual.get(key);
      if (held !== undefined && equal(held, value)) same++;
      else differs = true;
    };
    await visitAll(target, see, signal);
    let expected = actual.size;
    for (const key of written) if (actual.has(key)) expected--;
    return differs || same < expected;
  }

  /** @returns whether there was any */
  async #reportDrift(actual: ReadonlyMap<K, V>): Promise<boolean> {
    const believed = this.#believed;
    this.#believed = undefined;
    if (believed === undefined) return false;
    const drifted: K[] = [];
    for await (const key of differences(believed, actual, this.#options.equal)) drifted.push(key);
    if (drifted.length === 0) return false;
    this.#repairs.note(drifted, believed.size);
    this.#options.events.drift(drifted);
    return true;
  }

  /** For whom an entry is made: of several owners, the first one whom the target does not refuse. */
  #ownerOf(key: K): string {
    const owners = this.#options.desired.ownersOf(key);
    return owners.find((owner) => !this.#refused.has(owner)) ?? owners[0] ?? '';
  }

  /** Refused owners and contested keys are looked at again when their time comes, without anybody ringing. */
  #wakeForRetries(signal: AbortSignal): void {
    const due = Math.min(this.#repairs.nextMs() ?? Infinity, this.#refused.nextMs());
    if (due >= this.#wakeAtMs) return;
    this.#wakeAtMs = due;
    void pause(Math.max(0, due - this.#options.now()) + 1, signal).then(() => {
      this.#wakeAtMs = Infinity;
      for (const { owner } of this.#refused.list()) for (const key of this.#options.desired.keysOf(owner)) this.#recheck.add(key);
      for (const key of this.#repairs.contested().keys()) this.#recheck.add(key);
      this.#bell.ring();
    });
  }
}

/** Waits `ms`, or less if `signal` aborts; only an abort can make the timer reject. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
