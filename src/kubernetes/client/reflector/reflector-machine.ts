/**
 * When to list, to watch and to wait, so that a copy of one resource stays equal to the API server's for ever.
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
  /** What a wait delays; absent while not waiting. */
  readonly waitingFor?: 'snapshot' | 'confirm' | 'watch';
  /** `watchList` until a server says that it cannot. */
  readonly by: 'watchList' | 'list';
  /** The newest resource version seen; a snapshot older than that would go back in time. `undefined`: none, or of no use. */
  readonly version: string | undefined;
  /** The next snapshot has to be a quorum read, because the server cannot serve `version`. */
  readonly quorum: boolean;
  /** In a row; a watch that lived for `healthyWatchMs` ends the row. */
  readonly failures: number;
  readonly watchSinceMs: number;
  /** Objects missing from a snapshot, too many to trust it. */
  readonly held?: { readonly known: number; readonly missing: number; readonly sinceMs: number };
  /** The server says that it has come to this version, which is older than one we have seen. */
  readonly behind?: { readonly version: string; readonly sinceMs: number };
}

interface ListSnapshot {
  readonly type: 'snapshot';
  readonly version: string;
  /** How many objects we had, and how many of them are not in the snapshot. */
  readonly known: number;
  readonly missing: number;
  /** Whether every object of the snapshot could be read; if not, missing ones may be among the others. */
  readonly complete: boolean;
}

/**
 * Why a request failed, as far as it matters.
 * - `gone`         the server no longer has our version (410)
 * - `ahead`        the server does not have our version yet, and perhaps never will: it was restored from a backup
 * - `unsupported`  no such way of asking; the other way is next
 * - `broken`       anything else
 */
export type FailureKind = 'gone' | 'ahead' | 'unsupported' | 'broken';

export type ReflectorEvent =
  | { readonly type: 'start'; readonly version: string | undefined }
  | ListSnapshot
  /** An object in the watch had this version. */
  | { readonly type: 'seen'; readonly version: string }
  /** The server has told everything up to this version. */
  | { readonly type: 'bookmark'; readonly version: string }
  /** The server closed the watch in good order. */
  | { readonly type: 'ended' }
  | { readonly type: 'failed'; readonly why: FailureKind; readonly retryAfterMs?: number }
  | { readonly type: 'waited' };

/** `watchList` is a watch that first sends everything there is. */
export interface WatchAction {
  readonly do: 'watch' | 'watchList';
  readonly version: string;
  readonly timeoutSeconds: number;
}

/** `version` empty: a quorum read; `0`: whatever the server has at hand; else: not older than that. */
export type ReflectorAction =
  | { readonly do: 'list'; readonly version: string }
  | WatchAction
  | { readonly do: 'wait'; readonly ms: number }
  /** Go on with the request that is running. */
  | { readonly do: 'stay' };

export interface ReflectorStep {
  readonly state: ReflectorState;
  readonly action: ReflectorAction;
  /**
   * After a snapshot. `replace`: what is not in it is gone. `merge`: what is in it counts, what is not in it is kept. Absent: it is
   * not believed at all.
   */
  readonly commit?: 'replace' | 'merge';
}

export interface ReflectorPolicy {
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly healthyWatchMs: number;
  /** The server ends a watch after a random time between these, so that thousands of clients do not come back in step. */
  readonly minWatchSeconds: number;
  readonly maxWatchSeconds: number;
  /**
   * The brake: a snapshot that misses more than this share of the known objects, and at least `brakeMinimum` or all of them, needs a second
   * opinion. In a cluster of three nodes an empty list is as wrong as in one of a thousand.
   */
  readonly brakeShare: number;
  readonly brakeMinimum: number;
  /** How long a watch may be behind what was seen before, as one replica of several API servers is behind another, before a list decides. */
  readonly behindMs: number;
  /** Silence during a snapshot, its whole length, and how long a watch may outlive its own timeout before we end it. */
  readonly snapshotIdleMs: number;
  readonly snapshotMs: number;
  readonly watchGraceMs: number;
  /**
   * How long a watch may be silent. A kube-apiserver sends a bookmark a minute; one that is frozen, or a load balancer that holds the
   * connection for it, sends none, while its kernel still answers keep-alives. A watch that has not brought a bookmark yet is replaced
   * by a new one without a failure, after three quarters of this time to all of it: the server may not support bookmarks.
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
  /** From 0 (inclusive) to 1. */
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

/** The transition for one event. */
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

/** Whether a server has not come as far as we have, or has gone back. A quorum read is never behind: what it says is so. */
function isBehind({ version, quorum }: ReflectorState, heard: string): boolean {
  return !quorum && version !== undefined && (compareVersions(heard, version) ?? 0) < 0;
}

/** Another server may be a little behind for a moment; one that stays behind was restored from a backup, or is cut off from the others. */
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
      // A list of our own version is always possible after a watch of it was not, unless the server lost data.
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

/** The newer of two; the second if they cannot be compared. */
function newerVersion(a: string | undefined, b: string): string {
  return a !== undefined && (compareVersions(a, b) ?? -1) > 0 ? a : b;
}

/**
 * Orders resource versions of one resource.
 *
 * They are decimal numbers (Kubernetes documentation, "Resource versions"; guaranteed since 1.35, true for every server before).
 *
 * @returns `undefined` if one of them is something else
 */
export function compareVersions(a: string, b: string): number | undefined {
  if (!isDecimal(a) || !isDecimal(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

function isDecimal(text: string): boolean {
  return /^(0|[1-9]\d*)$/.test(text);
}
