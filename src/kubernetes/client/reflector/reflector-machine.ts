/**
 * State machine that decides when to list, to watch and to wait, so that a copy of one resource stays equal to the API server's.
 *
 * Pure: no socket, timer, clock or randomness. `reflector.ts` carries out each step and reports its outcome.
 *
 *     start ─▶ snapshot ──▶ watch ──ended──▶ watch
 *               ▲   │ ▲       │ │
 *               │   │ └─gone──┘ └─broken─▶ wait ─▶ watch
 *               │   └─too much is missing─▶ confirm ─▶ watch
 *               └────────── wait ◀─broken──┘
 */
export interface ReflectorState {
  readonly doing: 'nothing' | 'snapshot' | 'confirm' | 'watch';
  /** Action that a wait delays; absent while not waiting. */
  readonly waitingFor?: 'snapshot' | 'confirm' | 'watch';
  /** `watchList` until a server does not support it. */
  readonly by: 'watchList' | 'list';
  /** Newest resource version seen; an older snapshot would go back in time. `undefined`: none, or unusable. */
  readonly version: string | undefined;
  /** True if the next snapshot has to be a quorum read, because the server cannot serve `version`. */
  readonly quorum: boolean;
  /** Number of consecutive failures; a watch that lived for `healthyWatchMs` resets it. */
  readonly failures: number;
  readonly watchSinceMs: number;
  /** Objects missing from a snapshot, too many to trust it. */
  readonly held?: { readonly known: number; readonly missing: number; readonly sinceMs: number };
  /** Set if the server reports a version older than one that was seen. */
  readonly behind?: { readonly version: string; readonly sinceMs: number };
}

interface ListSnapshot {
  readonly type: 'snapshot';
  readonly version: string;
  /** Number of objects in the copy, and number of those that are not in the snapshot. */
  readonly known: number;
  readonly missing: number;
  /** True if every object of the snapshot could be read; if not, missing ones may be among the others. */
  readonly complete: boolean;
}

/**
 * Reason of a failed request, as far as it matters:
 * - `gone` the server no longer has the requested version (410)
 * - `ahead` the server does not have the requested version yet, and perhaps never will: it was restored from a backup
 * - `unsupported` the server does not support this kind of request; the other one is next
 * - `broken` anything else
 */
export type FailureKind = 'gone' | 'ahead' | 'unsupported' | 'broken';

export type ReflectorEvent =
  | { readonly type: 'start'; readonly version: string | undefined }
  | ListSnapshot
  /** An object in the watch had this version. */
  | { readonly type: 'seen'; readonly version: string }
  /** The server has sent all changes up to this version. */
  | { readonly type: 'bookmark'; readonly version: string }
  /** The server closed the watch regularly. */
  | { readonly type: 'ended' }
  | { readonly type: 'failed'; readonly why: FailureKind; readonly retryAfterMs?: number }
  | { readonly type: 'waited' };

/** `watchList` is a watch that first sends all existing objects. */
export interface WatchAction {
  readonly do: 'watch' | 'watchList';
  readonly version: string;
  readonly timeoutSeconds: number;
}

/** `version` empty: a quorum read; `0`: any version that the server has; else: not older than that. */
export type ReflectorAction =
  | { readonly do: 'list'; readonly version: string }
  | WatchAction
  | { readonly do: 'wait'; readonly ms: number }
  /** Continues the running request. */
  | { readonly do: 'stay' };

export interface ReflectorStep {
  readonly state: ReflectorState;
  readonly action: ReflectorAction;
  /**
   * Present after a snapshot. `replace`: objects not in it are deleted. `merge`: objects in it are updated, others are kept. Absent: the
   * snapshot is not trusted at all.
   */
  readonly commit?: 'replace' | 'merge';
}

export interface ReflectorPolicy {
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly healthyWatchMs: number;
  /** Range of the random time after which the server ends a watch, so that thousands of clients do not reconnect at once. */
  readonly minWatchSeconds: number;
  readonly maxWatchSeconds: number;
  /**
   * Brake: a snapshot that misses more than this share of the known objects, and at least `brakeMinimum` or all of them, needs a second
   * one. In a cluster of three nodes an empty list is as wrong as in one of a thousand.
   */
  readonly brakeShare: number;
  readonly brakeMinimum: number;
  /**
   * Time for which a watch may be behind a version seen before, as one replica of several API servers is behind another, before a list
   * decides.
   */
  readonly behindMs: number;
  /** Maximum silence during a snapshot, its maximum length, and the time by which a watch may exceed its own timeout before it is ended. */
  readonly snapshotIdleMs: number;
  readonly snapshotMs: number;
  readonly watchGraceMs: number;
  /**
   * Maximum silence of a watch. A kube-apiserver sends a bookmark every minute; one that is frozen, or a load balancer that keeps the
   * connection for it, sends none, while its kernel still answers keep-alives. A watch that has not received a bookmark yet is replaced
   * with a new one without a failure, after three quarters of this time to all of it: the server may not support bookmarks.
   */
  readonly watchSilenceMs: number;
}

export const reflectorPolicy: ReflectorPolicy = {
  minBackoffMs: 800,
  maxBackoffMs: 30_000,
  healthyWatchMs: 5_000,
  minWatchSeconds: 290,
  maxWatchSeconds: 600,
  brakeShare: 0.3,
  brakeMinimum: 5,
  behindMs: 30_000,
  snapshotIdleMs: 30_000,
  snapshotMs: 300_000,
  watchGraceMs: 30_000,
  watchSilenceMs: 120_000,
};

interface ReflectorMoment {
  readonly nowMs: number;
  /** Random number from 0 (inclusive) to 1. */
  readonly chance: number;
}

export const idleReflector: ReflectorState = {
  doing: 'nothing',
  by: 'watchList',
  version: undefined,
  quorum: false,
  failures: 0,
  watchSinceMs: 0,
};

/** Returns the transition for one event. */
export function stepReflector(state: ReflectorState, event: ReflectorEvent, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  switch (event.type) {
    case 'start':
      return begin({ ...state, version: event.version }, 'snapshot', at, policy);
    case 'snapshot':
      return judge(state, event, at, policy);
    case 'seen':
      return { state: see(state, event.version, at, policy), action: { do: 'stay' } };
    case 'bookmark':
      return compare(state, event.version, at, policy);
    case 'ended':
      return lived(state, at, policy) ? begin({ ...state, failures: 0 }, 'watch', at, policy) : retry(state, 'watch', at, policy);
    case 'failed':
      return recover(state, event, at, policy);
    case 'waited':
      return begin(state, state.waitingFor ?? 'snapshot', at, policy);
  }
}

function judge(state: ReflectorState, seen: ListSnapshot, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  if (state.doing === 'snapshot' && isBehind(state, seen.version)) return recheck(state, seen.version, at, policy);
  const { held, behind, ...rest } = state;
  const known = { ...rest, version: seen.version, quorum: false };
  const many = seen.missing >= policy.brakeMinimum && seen.missing > policy.brakeShare * seen.known;
  const doubtful = many || (seen.missing > 0 && seen.missing === seen.known);
  if (doubtful && state.doing === 'snapshot') {
    const step = begin({ ...known, held: { known: seen.known, missing: seen.missing, sinceMs: at.nowMs } }, 'confirm', at, policy);
    return { ...step, commit: 'merge' };
  }
  const streaming = state.doing === 'snapshot' && state.by === 'watchList' && !state.quorum;
  const next: ReflectorStep = streaming
    ? { state: { ...known, doing: 'watch', watchSinceMs: at.nowMs }, action: { do: 'stay' } }
    : begin(known, 'watch', at, policy);
  return { ...next, commit: seen.complete ? 'replace' : 'merge' };
}

/** Reports whether a server has not reached a version that was seen, or has gone back. A quorum read is never behind. */
function isBehind({ version, quorum }: ReflectorState, heard: string): boolean {
  return !quorum && version !== undefined && (compareVersions(heard, version) ?? 0) < 0;
}

/**
 * Handles the version of another server, which may be behind for a moment; one that stays behind was restored from a backup, or is cut off
 * from the others.
 */
function compare(state: ReflectorState, version: string, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  if (!isBehind(state, version)) return { state: see(state, version, at, policy), action: { do: 'stay' } };
  if (state.behind && at.nowMs - state.behind.sinceMs >= policy.behindMs) return recheck(state, version, at, policy);
  return { state: { ...state, behind: { sinceMs: at.nowMs, ...state.behind, version } }, action: { do: 'stay' } };
}

function recheck(state: ReflectorState, version: string, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  const behind = { sinceMs: at.nowMs, ...state.behind, version };
  return retry({ ...state, behind, quorum: true, version: undefined }, 'snapshot', at, policy);
}

function see(from: ReflectorState, version: string, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorState {
  const { behind, ...rest } = from;
  const state = isBehind(from, version) ? from : rest;
  return { ...state, version: newerVersion(state.version, version), failures: lived(state, at, policy) ? 0 : state.failures };
}

type Failed = Extract<ReflectorEvent, { readonly type: 'failed' }>;

function recover(state: ReflectorState, { why, retryAfterMs = 0 }: Failed, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  const doing = state.doing === 'nothing' ? 'snapshot' : state.doing;
  const counted = lived(state, at, policy) ? { ...state, failures: 0 } : state;
  switch (why) {
    case 'unsupported':
      return state.by === 'watchList' && doing === 'snapshot'
        ? begin({ ...state, by: 'list' }, 'snapshot', at, policy)
        : retry(counted, doing, at, policy, retryAfterMs);
    case 'ahead':
      return retry(
        { ...counted, quorum: true, version: undefined },
        doing === 'confirm' ? 'confirm' : 'snapshot',
        at,
        policy,
        retryAfterMs,
      );
    case 'gone':
      // A list of the known version is always possible after a watch of it failed, unless the server lost data.
      return doing === 'watch'
        ? retry(counted, 'snapshot', at, policy, retryAfterMs)
        : retry({ ...counted, quorum: true, version: undefined }, doing, at, policy, retryAfterMs);
    case 'broken':
      return retry(counted, doing, at, policy, retryAfterMs);
  }
}

function lived(state: ReflectorState, at: ReflectorMoment, policy: ReflectorPolicy): boolean {
  return state.doing === 'watch' && at.nowMs - state.watchSinceMs >= policy.healthyWatchMs;
}

type ReflectorTask = 'snapshot' | 'confirm' | 'watch';

function retry(state: ReflectorState, task: ReflectorTask, at: ReflectorMoment, policy: ReflectorPolicy, atLeastMs = 0): ReflectorStep {
  const backoffMs = Math.min(policy.maxBackoffMs, policy.minBackoffMs * 2 ** Math.min(state.failures, 30));
  const ms = Math.max(atLeastMs, backoffMs * (0.5 + at.chance / 2));
  return { state: { ...state, doing: task, waitingFor: task, failures: state.failures + 1 }, action: { do: 'wait', ms } };
}

function begin(from: ReflectorState, task: ReflectorTask, at: ReflectorMoment, policy: ReflectorPolicy): ReflectorStep {
  const { waitingFor, ...rest } = from;
  const timeoutSeconds = Math.round(policy.minWatchSeconds + at.chance * (policy.maxWatchSeconds - policy.minWatchSeconds));
  const state: ReflectorState = { ...rest, doing: task, watchSinceMs: at.nowMs };
  if (task === 'confirm') return { state, action: { do: 'list', version: '' } };
  if (task === 'watch') return { state, action: { do: 'watch', version: state.version ?? '', timeoutSeconds } };
  if (state.quorum) return { state, action: { do: 'list', version: '' } };
  return { state, action: { do: state.by, version: state.version ?? '0', timeoutSeconds } };
}

/** Returns the newer of two; the second if they cannot be compared. */
function newerVersion(a: string | undefined, b: string): string {
  return a !== undefined && (compareVersions(a, b) ?? -1) > 0 ? a : b;
}

/**
 * Orders resource versions of one resource.
 *
 * They are decimal numbers (Kubernetes documentation, "Resource versions"; guaranteed since 1.35, true for every server before).
 *
 * @returns `undefined` if one of them is not a number
 */
export function compareVersions(a: string, b: string): number | undefined {
  if (!isDecimal(a) || !isDecimal(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

function isDecimal(text: string): boolean {
  return /^(0|[1-9]\d*)$/.test(text);
}

/** Query of a list that must not be older than a version. */
export function versionQuery(version: string): Record<string, string> {
  if (version === '' || version === '0') return version === '' ? {} : { resourceVersion: version };
  return { resourceVersion: version, resourceVersionMatch: 'NotOlderThan' };
}

/** Query of a watch, which may begin with the list. */
export function watchQuery(action: WatchAction): Record<string, string> {
  return {
    watch: 'true',
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(action.timeoutSeconds),
    resourceVersion: action.version,
    ...(action.do === 'watchList' ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' } : {}),
  };
}
