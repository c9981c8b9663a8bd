import { join } from 'node:path';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { pause } from '../../../base/async/pause.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { KubeHttp } from '../http-client.ts';
import { apiLimits, type JsonSink, readJson, type Unreadable } from '../json/json-stream.ts';
import { type Replica, type ReplicaChanges, ReplicaStore } from '../replica/replica.ts';
import { ReplicaKeeper } from '../replica/replica-keeper.ts';
import { type ObjectRead, readObject, SnapshotDraft } from '../replica/snapshot-draft.ts';
import { identityIn, identityOf, type ObjectIdentity, type Resource } from '../resource.ts';
import { identityAhead } from './object-head.ts';
import {
  type FailureKind,
  idleReflector,
  type ReflectorAction,
  type ReflectorEvent,
  type ReflectorPolicy,
  type ReflectorState,
  type ReflectorStep,
  reflectorPolicy,
  stepReflector,
  versionQuery,
  type WatchAction,
  watchQuery,
} from './reflector-machine.ts';
import { type ReflectorReport, type ReflectorStatus, type SourceState, sourceState } from './reflector-report.ts';
import { RunningWatch } from './running-watch.ts';
import { failureKind, type ObjectEvent, parseListEnvelope, parseWatchEvent, type WatchEvent } from './watch-event.ts';
import { Watchdog } from './watchdog.ts';

interface ReflectorOptions<T> {
  readonly http: Pick<KubeHttp, 'stream'>;
  readonly resource: Resource<T>;
  readonly turns: LoopTurns;
  readonly onReport: (report: ReflectorReport) => void;
  /** Folder for the stored copy; if absent, nothing is stored. */
  readonly stateDir?: string;
  /** Minimum time between two writes of the stored copy (ms). */
  readonly saveEveryMs?: number;
  readonly policy?: ReflectorPolicy;
  /**
   * Resolves when the server may be contacted for the first time, or once `signal` aborts; the stored copy is available before. Absent: at
   * once.
   */
  readonly whenToBegin?: (signal: AbortSignal) => Promise<void>;
}

const DEFAULT_SAVE_EVERY_MS = 10_000;

/** Keeps a copy of one resource of the Kubernetes API, through all failures of the server and the network. */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  readonly #policy: ReflectorPolicy;
  readonly #store = new ReplicaStore<T>();
  #state = idleReflector;
  #lastError: SeineError | undefined;
  #invalid = new Map<string, SeineError>();
  #snapshotBeganMs = 0;
  #lastMessageMs: number | undefined;
  /** Time since which the server follows from a version that this copy has; a resource without changes is quiet for a minute. */
  #followedSinceMs: number | undefined;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#policy = options.policy ?? reflectorPolicy;
  }

  get replica(): Replica<T> {
    return this.#store;
  }

  /** Calls back with each change of an object, see `ReplicaStore.observe`. @returns a function that ends it */
  observe(observer: (changes: ReplicaChanges<T>) => void): () => void {
    return this.#store.observe(observer);
  }

  get status(): ReflectorStatus {
    const { doing, waitingFor, version, failures, held, behind, watchSinceMs } = this.#state;
    const nowMs = performance.now();
    const { synced, size } = this.#store;
    const isFollowed = this.#followedSinceMs !== undefined && nowMs - this.#followedSinceMs >= this.#policy.healthyWatchMs;
    const lastError = isFollowed ? undefined : this.#lastError;
    const state = sourceState({ synced, held: held !== undefined, behind: behind !== undefined, lastError });
    return {
      kind: this.#options.resource.kind,
      state,
      doing,
      waiting: waitingFor !== undefined,
      synced,
      objects: size,
      version: version ?? '',
      failures,
      ...(doing === 'watch' && waitingFor === undefined ? { watchAgeMs: nowMs - watchSinceMs } : {}),
      ...(this.#lastMessageMs === undefined ? {} : { silenceMs: nowMs - this.#lastMessageMs }),
      ...(lastError ? { lastError } : {}),
      ...heldOf(state, held, size),
      ...(behind ? { behind: behind.version } : {}),
      invalid: this.#invalid,
    };
  }

  /**
   * Restores the stored copy, then lists and watches until `signal` aborts.
   *
   * @throws SeineError `INVARIANT`; every other failure is reported and retried for ever
   */
  async run(signal: AbortSignal): Promise<void> {
    const keeper = this.#keeper();
    const version = await keeper?.restore();
    if (version !== undefined) this.#options.onReport({ what: 'restored', objects: this.#store.size, version });
    const over = new AbortController();
    const keeping = keeper?.run(() => this.#state.version ?? '', over.signal);
    try {
      await this.#options.whenToBegin?.(signal);
      let action = this.#step({ type: 'start', version: version || undefined });
      while (!signal.aborted) action = await this.#perform(action, signal);
    } finally {
      over.abort();
      await keeping;
    }
  }

  #keeper(): ReplicaKeeper<T> | undefined {
    const { stateDir, resource, turns, saveEveryMs = DEFAULT_SAVE_EVERY_MS, onReport } = this.#options;
    if (stateDir === undefined) return undefined;
    return new ReplicaKeeper({
      store: this.#store,
      file: join(stateDir, `${resource.kind.toLowerCase()}.jsonl`),
      of: resource,
      turns,
      everyMs: saveEveryMs,
      onError: (error) => onReport({ what: 'storage', error }),
    });
  }

  #step(event: ReflectorEvent): ReflectorAction {
    return this.#advance(event).action;
  }

  #advance(event: ReflectorEvent): ReflectorStep {
    const { failures, behind, version: seen = '' } = this.#state;
    const step = stepReflector(this.#state, event, { nowMs: performance.now(), chance: Math.random() }, this.#policy);
    this.#state = step.state;
    if (failures > 0 && step.state.failures === 0) this.#options.onReport({ what: 'recovered' });
    if (!behind && step.state.behind) this.#options.onReport({ what: 'behind', version: step.state.behind.version, seen });
    return step;
  }

  async #perform(action: ReflectorAction, signal: AbortSignal): Promise<ReflectorAction> {
    switch (action.do) {
      case 'wait':
        await pause(action.ms, signal);
        return this.#step({ type: 'waited' });
      case 'list':
        return this.#list(action.version, signal);
      case 'watchList':
      case 'watch':
        return this.#watch(action, signal);
      case 'stay':
        throw new SeineError('INVARIANT', 'there is no request to continue');
    }
  }

  async #list(version: string, signal: AbortSignal): Promise<ReflectorAction> {
    const draft = this.#beginSnapshot();
    const watchdog = new Watchdog();
    this.#armForSnapshot(watchdog);
    try {
      const envelope = await this.#read('list', versionQuery(version), AbortSignal.any([signal, watchdog.signal]), {
        isKnown: (bytes) => this.#isKept(draft, () => identityAhead(bytes, 'object')),
        onValue: (raw) => this.#draftObject(draft, raw),
        onUnreadable: (what) => this.#draftUnreadable(draft, what),
        onPause: () => this.#armForSnapshot(watchdog),
      });
      const { version: listed, whole } = parseListEnvelope(envelope);
      if (!whole) draft.spoil();
      return this.#commit(draft, listed);
    } catch (thrown) {
      return this.#fail(thrown, (error) => failureKind(error, 'list'), signal);
    } finally {
      watchdog.stop();
    }
  }

  async #watch(action: WatchAction, signal: AbortSignal): Promise<ReflectorAction> {
    const watch = new RunningWatch(action, action.do === 'watchList' ? this.#beginSnapshot() : undefined);
    this.#armForWatch(watch);
    try {
      await this.#read('values', watchQuery(action), AbortSignal.any([signal, watch.watchdog.signal, watch.leave.signal]), {
        onAccepted: () => {
          if (!watch.draft) this.#followedSinceMs = performance.now();
        },
        isKnown: (bytes) => this.#isKeptEvent(watch, bytes),
        onValue: (raw) => this.#onEvent(watch, raw),
        onUnreadable: (what) => this.#draftUnreadable(watch.draft, what),
        onPause: () => {
          this.#armForWatch(watch);
          this.#store.flush();
        },
      });
      if (watch.draft) throw new SeineError('UNAVAILABLE', 'the watch ended before its initial events did');
      return this.#step({ type: 'ended' });
    } catch (thrown) {
      if (watch.isRenewed && !signal.aborted) return this.#step({ type: 'ended' });
      return watch.next ?? this.#fail(thrown, (error) => watch.failureKind(error), signal);
    } finally {
      this.#followedSinceMs = undefined;
      watch.watchdog.stop();
      this.#store.flush();
    }
  }

  #isKeptEvent(watch: RunningWatch<T>, bytes: Buffer): boolean {
    const isKept = watch.next === undefined && this.#isKept(watch.draft, () => identityAhead(bytes, 'added'));
    if (isKept) this.#lastMessageMs = performance.now();
    return isKept;
  }

  #onEvent(watch: RunningWatch<T>, raw: unknown): void {
    this.#lastMessageMs = performance.now();
    const event = watch.next ? undefined : this.#parseEvent(raw, watch.draft);
    if (event?.type === 'ERROR') throw event.error;
    if (!watch.draft) this.#lastError = undefined; // it answers, and successfully
    if (event?.type === 'BOOKMARK') this.#onBookmark(watch, event.version, event.initialEventsEnd ? 'initialEventsEnd' : 'progress');
    else if (event && watch.draft) this.#draftEvent(watch.draft, event);
    else if (event) this.#apply(event.type, event.object);
  }

  #onBookmark(watch: RunningWatch<T>, version: string, marks: 'initialEventsEnd' | 'progress'): void {
    if (watch.draft && marks === 'progress') return;
    const action = watch.draft ? this.#commit(watch.draft, version) : this.#step({ type: 'bookmark', version });
    watch.draft = undefined;
    watch.bringsBookmarks ||= marks === 'progress';
    if (action.do !== 'stay') watch.leaveFor(action);
    else this.#armForWatch(watch);
  }

  #armForWatch(watch: RunningWatch<T>): void {
    const { draft, watchdog, action, bringsBookmarks } = watch;
    const { watchGraceMs, watchSilenceMs } = this.#policy;
    if (draft) {
      this.#armForSnapshot(watchdog);
      return;
    }
    const nowMs = performance.now();
    watch.endsAtMs ??= nowMs + action.timeoutSeconds * 1_000 + watchGraceMs;
    const leftMs = Math.max(0, watch.endsAtMs - nowMs);
    const renewMs = watchSilenceMs * (1 - Math.random() / 4); // not all clients of one server at once
    watch.isRenewedWhenExpired = !bringsBookmarks && renewMs < leftMs;
    if (watch.isRenewedWhenExpired) watchdog.arm(renewMs, 'the watch is silent and has brought no bookmark');
    else if (watchSilenceMs < leftMs)
      watchdog.arm(watchSilenceMs, `the API server has sent nothing for ${watchSilenceMs / 1_000} s, not even a bookmark`);
    else watchdog.arm(leftMs, 'the watch outlived its time');
  }

  #read(
    shape: 'list' | 'values',
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
    { onAccepted, ...sink }: Pick<JsonSink, 'isKnown' | 'onValue' | 'onUnreadable' | 'onPause'> & { readonly onAccepted?: () => void },
  ): Promise<unknown> {
    const { http, resource, turns } = this.#options;
    const selectors = {
      ...(resource.fieldSelector === undefined ? {} : { fieldSelector: resource.fieldSelector }),
      ...(resource.labelSelector === undefined ? {} : { labelSelector: resource.labelSelector }),
    };
    const chunks = http.stream({ path: resource.path, query: { ...selectors, ...query } }, signal, onAccepted);
    return readJson(shape, chunks, { ...sink, limits: apiLimits, turns });
  }

  #armForSnapshot(watchdog: Watchdog): void {
    const leftMs = this.#snapshotBeganMs + this.#policy.snapshotMs - performance.now();
    watchdog.arm(Math.max(0, Math.min(this.#policy.snapshotIdleMs, leftMs)), 'the snapshot stalled');
  }

  #beginSnapshot(): SnapshotDraft<T> {
    this.#snapshotBeganMs = performance.now();
    return new SnapshotDraft(this.#store);
  }

  #commit(draft: SnapshotDraft<T>, version: string): ReflectorAction {
    this.#lastMessageMs = performance.now();
    const heldBefore = this.#state.held;
    const known = this.#store.size;
    const missing = this.#store.missingFrom(draft);
    const { action, commit } = this.#advance({ type: 'snapshot', version, known, missing, complete: draft.complete });
    if (commit === undefined) return action;
    if (commit === 'merge') this.#store.merge(draft.objects, draft.gone);
    else this.#store.replace(draft.objects, draft.gone);
    this.#invalid = draft.invalid;
    const { held } = this.#state;
    if (held) this.#options.onReport({ what: 'held', known, missing });
    else {
      this.#lastError = undefined;
      const tookMs = Math.round(performance.now() - this.#snapshotBeganMs);
      if (heldBefore)
        this.#options.onReport(missing > 0 ? { what: 'released', missing } : { what: 'refuted', missing: heldBefore.missing });
      this.#options.onReport({ what: 'synced', objects: this.#store.size, version, tookMs });
      this.#store.markSynced();
    }
    this.#store.flush();
    return action;
  }

  #fail(thrown: unknown, kindOf: (error: SeineError) => FailureKind, signal: AbortSignal): ReflectorAction {
    const error = SeineError.from(thrown, `list and watch of ${this.#options.resource.kind}`);
    if (error.remedy === 'crash') throw error;
    const retryAfterMs = error.context['retryAfterMs'];
    const action = this.#step({ type: 'failed', why: kindOf(error), ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}) });
    if (signal.aborted || action.do !== 'wait') return action;
    this.#lastError = error;
    this.#options.onReport({ what: 'failed', error, failures: this.#state.failures, waitMs: Math.round(action.ms) });
    return action;
  }

  #parseEvent(raw: unknown, draft: SnapshotDraft<T> | undefined): WatchEvent | undefined {
    try {
      return parseWatchEvent(raw);
    } catch (thrown) {
      this.#reportUnreadable(thrown);
      draft?.spoil();
      return undefined;
    }
  }

  #draftUnreadable(draft: SnapshotDraft<T> | undefined, { why, bytes }: Unreadable): void {
    this.#options.onReport({ what: 'unreadable', why: `${bytes} bytes: ${why}` });
    draft?.spoil();
  }

  /**
   * Handles an event of the snapshot. Live events may be among the initial ones: for objects that changed or were deleted since the server
   * began to send.
   */
  #draftEvent(draft: SnapshotDraft<T>, { type, object }: ObjectEvent): void {
    const gone = type === 'DELETED' ? this.#readGone(object) : undefined;
    if (type !== 'DELETED') this.#draftObject(draft, object);
    else if (gone) draft.remove(gone);
    else draft.spoil();
  }

  #draftObject(draft: SnapshotDraft<T>, raw: unknown): void {
    if (this.#isKept(draft, () => identityIn(raw))) return;
    const read = this.#readObject(raw);
    if (!read) draft.spoil();
    else draft.add(read);
  }

  /**
   * Reports whether an object is unchanged and need not be parsed: there are tens of thousands. A server that was restored from a backup
   * reuses versions: after any sign of that, and for a confirmation, everything is read.
   */
  #isKept(draft: SnapshotDraft<T> | undefined, identity: () => ObjectIdentity | undefined): boolean {
    const { doing, quorum } = this.#state;
    return draft !== undefined && doing === 'snapshot' && !quorum && draft.keep(identity());
  }

  #apply(type: 'ADDED' | 'MODIFIED' | 'DELETED', raw: unknown): void {
    const read = type === 'DELETED' ? this.#readGone(raw) : this.#readObject(raw);
    if (!read) return;
    if (read.version !== '') this.#step({ type: 'seen', version: read.version });
    if (read.is === 'invalid') this.#invalid.set(read.key, read.error);
    else this.#invalid.delete(read.key);
    if (read.is === 'good') this.#store.put(read.key, read.version, read.value);
    else if (read.is === 'unused') this.#store.remove(read.key, read.version);
  }

  #readObject(raw: unknown): ObjectRead<T> | undefined {
    try {
      const read = readObject(this.#options.resource, raw);
      if (read.is === 'invalid') this.#options.onReport({ what: 'invalid', key: read.key, error: read.error });
      return read;
    } catch (thrown) {
      this.#reportUnreadable(thrown);
      return undefined;
    }
  }

  #readGone(raw: unknown): ObjectRead<T> | undefined {
    try {
      return { ...identityOf(raw), is: 'unused' };
    } catch (thrown) {
      this.#reportUnreadable(thrown);
      return undefined;
    }
  }

  #reportUnreadable(thrown: unknown): void {
    const error = SeineError.from(thrown, `read ${this.#options.resource.kind}`);
    if (error.remedy === 'crash') throw error;
    this.#options.onReport({ what: 'unreadable', why: error.message });
  }
}

/** Returns the held state. A resource that is gone altogether is treated like a list that lacks all of it. */
function heldOf(state: SourceState, held: ReflectorState['held'], size: number): Pick<ReflectorStatus, 'held'> {
  if (held) return { held };
  return state === 'gone' && size > 0 ? { held: { known: size, missing: size } } : {};
}
