/**
 * State of a stream connection that must be kept open forever: decides when to connect, to probe and to close.
 *
 * A pure state machine: no socket, no timer, no clock, no randomness. Their owner (`keep-connected.ts`) reports each event and its time,
 * carries out the effect, and calls again with `tick` at `wakeAtMs`. All times are milliseconds of one monotonic clock.
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
  | { readonly kind: 'connected'; readonly sinceMs: number; readonly lastMessageMs: number; readonly backoffMs: number }
  | { readonly kind: 'probing'; readonly sinceMs: number; readonly probedMs: number; readonly backoffMs: number };

/**
 * Event of a connection:
 *
 * - `start`, `stop`  our side wants the connection, or no longer
 * - `connected`      the stream is open
 * - `lost`           connecting failed, or the stream closed
 * - `heard`          bytes arrived from the peer; any bytes prove that it is alive
 * - `tick`           time passed; harmless if it comes too early
 */
export type ReconnectEvent = 'start' | 'stop' | 'connected' | 'lost' | 'heard' | 'tick';

/** Action that the owner must take now. After `disconnect` it must not report `lost` for the stream it closed. */
type ReconnectEffect = 'none' | 'connect' | 'disconnect' | 'probe';

export interface ReconnectPolicy {
  /** Wait before the first retry (ms); it doubles with each failure in a row. */
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  /** Jitter: share of the wait, 0 to 1, by which it may be shortened, so that many clients do not reconnect at the same moment. */
  readonly jitter: number;
  readonly connectTimeoutMs: number;
  /** Silence after which the peer is probed (ms), and the further silence after which it counts as dead. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
}

/** Policy for a daemon on the same host: it comes back within tens of milliseconds, and a retry costs almost nothing. */
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
  /** Random number from 0 (inclusive) to 1; used only when a wait begins. */
  readonly chance: number;
}

interface ReconnectStep {
  readonly state: ReconnectState;
  readonly effect: ReconnectEffect;
}

/** Returns the transition for one event. An event without meaning in a state changes nothing. */
export function stepReconnect(state: ReconnectState, event: ReconnectEvent, at: ReconnectMoment, policy: ReconnectPolicy): ReconnectStep {
  switch (event) {
    case 'start':
      return state.kind === 'stopped' ? dial(policy.minBackoffMs, at) : stay(state);
    case 'stop':
      return { state: stoppedState, effect: hasStream(state) ? 'disconnect' : 'none' };
    case 'connected':
      return state.kind === 'connecting' ? stay({ ...state, kind: 'connected', sinceMs: at.nowMs, lastMessageMs: at.nowMs }) : stay(state);
    case 'heard':
      return stay(heard(state, at.nowMs));
    case 'lost':
      return hasStream(state) ? { state: retreat(state, at, policy), effect: 'none' } : stay(state);
    case 'tick':
      return tick(state, at, policy);
  }
}

/** Returns the time of the next `tick`; undefined if only an event can change anything. */
export function wakeAtMs(state: ReconnectState, policy: ReconnectPolicy): number | undefined {
  switch (state.kind) {
    case 'stopped':
      return undefined;
    case 'waiting':
      return state.untilMs;
    case 'connecting':
      return state.sinceMs + policy.connectTimeoutMs;
    case 'connected':
      return state.lastMessageMs + policy.probeIntervalMs;
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
  return { kind: 'connected', sinceMs: state.sinceMs, lastMessageMs: nowMs, backoffMs: state.backoffMs };
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
 * A connection that lasted longer than the wait before it counts as good, and the waits start again at the shortest. A connection that is
 * accepted and dropped at once does not, otherwise such a server would get attempts without a pause.
 */
function retreat(state: StreamState, { nowMs, chance }: ReconnectMoment, policy: ReconnectPolicy): ReconnectState {
  const proven = state.kind !== 'connecting' && nowMs - state.sinceMs > state.backoffMs;
  const waitMs = proven ? policy.minBackoffMs : state.backoffMs;
  const untilMs = nowMs + waitMs * (1 - policy.jitter * chance);
  return { kind: 'waiting', untilMs, backoffMs: Math.min(waitMs * 2, policy.maxBackoffMs) };
}
