/**
 * When to connect, to probe and to give up on a stream connection that must be kept up for ever.
 *
 * A pure machine: no socket, no timer, no clock, no randomness. Their owner (`keep-connected.ts`) reports each
 * event and its time, carries out the effect, and calls again with `tick` at `wakeAtMs`. All times are milliseconds of
 * one monotonic clock.
 *
 *     stopped ──start──▶ connecting ──connected──▶ connected ──(silence)──▶ probing
 *                          ▲   │ lost, late           │ lost                 │ │ lost, late
 *                   (time) │   ▼                      ▼                      │ │      heard
 *                         waiting ◀──────────────────────────────────────────┘ └──▶ connected
 */
export type ReconnectState =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'waiting'; readonly untilMs: number; readonly backoffMs: number }
  | { readonly kind: 'connecting'; readonly sinceMs: number; readonly backoffMs: number }
  | { readonly kind: 'connected'; readonly sinceMs: number; readonly heardMs: number; readonly backoffMs: number }
  | { readonly kind: 'probing'; readonly sinceMs: number; readonly probedMs: number; readonly backoffMs: number };

/**
 * - `start`, `stop`  our side wants the connection, or no longer
 * - `connected`      the stream is open
 * - `lost`           connecting failed, or the stream closed
 * - `heard`          bytes came from the peer; any bytes prove that it lives
 * - `tick`           time passed; harmless when it comes too early
 */
export type ReconnectEvent = 'start' | 'stop' | 'connected' | 'lost' | 'heard' | 'tick';

/** What the owner must do now. After `disconnect` it must not report `lost` for the stream it closed. */
type ReconnectEffect = 'none' | 'connect' | 'disconnect' | 'probe';

export interface ReconnectPolicy {
  /** The wait before the first retry; it doubles with each failure in a row. */
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  /** Jitter: the share of the wait, 0 to 1, by which it may be shortened, so that many clients do not come back in step. */
  readonly jitter: number;
  readonly connectTimeoutMs: number;
  /** Silence after which the peer is probed, and the further silence after which it counts as dead. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
}

/** For a daemon on the same host: it comes back within tens of milliseconds, and a retry costs next to nothing. */
export const localPolicy: ReconnectPolicy = {
  minBackoffMs: 20,
  maxBackoffMs: 1_000,
  jitter: 0.5,
  connectTimeoutMs: 5_000,
  probeIntervalMs: 5_000,
  probeTimeoutMs: 5_000,
};

export const stoppedState: ReconnectState = { kind: 'stopped' };

interface ReconnectMoment {
  readonly nowMs: number;
  /** From 0 (inclusive) to 1; used only when a wait begins. */
  readonly chance: number;
}

interface ReconnectStep {
  readonly state: ReconnectState;
  readonly effect: ReconnectEffect;
}

/** The transition for one event. An event without meaning in a state changes nothing. */
export function stepReconnect(state: ReconnectState, event: ReconnectEvent, at: ReconnectMoment, policy: ReconnectPolicy): ReconnectStep {
  switch (event) {
    case 'start':
      return state.kind === 'stopped' ? dial(policy.minBackoffMs, at) : stay(state);
    case 'stop':
      return { state: stoppedState, effect: hasStream(state) ? 'disconnect' : 'none' };
    case 'connected':
      return state.kind === 'connecting' ? stay({ ...state, kind: 'connected', sinceMs: at.nowMs, heardMs: at.nowMs }) : stay(state);
    case 'heard':
      return stay(heard(state, at.nowMs));
    case 'lost':
      return hasStream(state) ? { state: retreat(state, at, policy), effect: 'none' } : stay(state);
    case 'tick':
      return tick(state, at, policy);
  }
}

/** When the next `tick` is due; `undefined` if only an event can change anything. */
export function wakeAtMs(state: ReconnectState, policy: ReconnectPolicy): number | undefined {
  switch (state.kind) {
    case 'stopped':
      return undefined;
    case 'waiting':
      return state.untilMs;
    case 'connecting':
      return state.sinceMs + policy.connectTimeoutMs;
    case 'connected':
      return state.heardMs + policy.probeIntervalMs;
    case 'probing':
      return state.probedMs + policy.probeTimeoutMs;
  }
}

type StreamState = Extract<ReconnectState, { kind: 'connecting' | 'connected' | 'probing' }>;

function hasStream(state: ReconnectState): state is StreamState {
  return state.kind === 'connecting' || state.kind === 'connected' || state.kind === 'probing';
}

function stay(state: ReconnectState): ReconnectStep {
  return { state, effect: 'none' };
}

function dial(backoffMs: number, { nowMs }: ReconnectMoment): ReconnectStep {
  return { state: { kind: 'connecting', sinceMs: nowMs, backoffMs }, effect: 'connect' };
}

function heard(state: ReconnectState, nowMs: number): ReconnectState {
  if (state.kind !== 'connected' && state.kind !== 'probing') return state;
  return { kind: 'connected', sinceMs: state.sinceMs, heardMs: nowMs, backoffMs: state.backoffMs };
}

function tick(state: ReconnectState, at: ReconnectMoment, policy: ReconnectPolicy): ReconnectStep {
  const due = wakeAtMs(state, policy);
  if (due === undefined || at.nowMs < due) return stay(state);
  switch (state.kind) {
    case 'stopped':
      return stay(state);
    case 'waiting':
      return dial(state.backoffMs, at);
    case 'connected':
      return { state: { kind: 'probing', sinceMs: state.sinceMs, probedMs: at.nowMs, backoffMs: state.backoffMs }, effect: 'probe' };
    case 'connecting':
    case 'probing':
      return { state: retreat(state, at, policy), effect: 'disconnect' };
  }
}

/**
 * Begins the wait before the next attempt.
 *
 * A connection that lived longer than the wait before it counts as good, and the waits begin again at the
 * shortest. One that is accepted and dropped at once does not, or such a server would get attempts without end.
 */
function retreat(state: StreamState, { nowMs, chance }: ReconnectMoment, policy: ReconnectPolicy): ReconnectState {
  const proven = state.kind !== 'connecting' && nowMs - state.sinceMs > state.backoffMs;
  const waitMs = proven ? policy.minBackoffMs : state.backoffMs;
  const untilMs = nowMs + waitMs * (1 - policy.jitter * chance);
  return { kind: 'waiting', untilMs, backoffMs: Math.min(waitMs * 2, policy.maxBackoffMs) };
}
