import type { Finding } from '../../../api/check.ts';
import { fine, trouble } from './check.ts';

/** Facts about the clock of this host. Milliseconds. */
interface ClockFacts {
  /** Difference to the API server's clock, positive if ahead; undefined if it sent no date. */
  readonly aheadMs: number | undefined;
  /** Uncertainty: the duration of the request, and the date's whole seconds. */
  readonly uncertainMs: number;
  /** Change of the clock since the agent began, forward positive. */
  readonly jumpedMs: number;
}

/** Difference above which it is a warning. */
const NOTED_MS = 5_000;
/** Difference that verifiers of tokens and certificates usually tolerate. */
const TOLERATED_MS = 60_000;
const remedy = 'chronyc makestep    # or: timedatectl set-ntp true';

/**
 * Compares a Date header (RFC 9110 §6.6.1) with our clock. The server wrote it between our request and its answer, and it has whole
 * seconds.
 *
 * @param sentMs @param lastMessageMs by our wall clock
 */
export function offsetOf(date: string | undefined, sentMs: number, lastMessageMs: number): Pick<ClockFacts, 'aheadMs' | 'uncertainMs'> {
  const serverMs = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(serverMs)) return { aheadMs: undefined, uncertainMs: 0 };
  return { aheadMs: (sentMs + lastMessageMs) / 2 - (serverMs + 500), uncertainMs: (lastMessageMs - sentMs) / 2 + 500 };
}

export function assessClock({ aheadMs, uncertainMs, jumpedMs }: ClockFacts): readonly Finding[] {
  const against = aheadMs === undefined ? [] : assessOffset(aheadMs, uncertainMs);
  const jumped = assessJump(jumpedMs);
  if (against.length + jumped.length > 0) return [...against, ...jumped];
  if (aheadMs === undefined)
    return [
      trouble('clock', 'unknown', {
        what: 'not changed since the agent started; the API server sends no date',
        effect: 'with a wrong clock, certificates and tokens seem invalid',
      }),
    ];
  return [fine('clock', `within ${seconds(Math.abs(aheadMs) + uncertainMs)} of the API server's, not set since the agent began`)];
}

function assessOffset(aheadMs: number, uncertainMs: number): readonly Finding[] {
  const surelyMs = Math.max(0, Math.abs(aheadMs) - uncertainMs);
  if (surelyMs < NOTED_MS) return [];
  return [
    trouble('clock', surelyMs < TOLERATED_MS ? 'warning' : 'problem', {
      what: `this node's clock is ${seconds(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'} the API server's`,
      effect: 'packets are forwarded all the same; certificates and tokens may be refused, so that the agent loses the API server',
      remedy,
    }),
  ];
}

function assessJump(jumpedMs: number): readonly Finding[] {
  if (Math.abs(jumpedMs) < NOTED_MS) return [];
  return [
    trouble('clock', 'warning', {
      what: `the clock was set ${jumpedMs > 0 ? 'forward' : 'back'} by ${seconds(Math.abs(jumpedMs))} since the agent began${jumpedMs > 0 ? ', or the host was suspended' : ''}`,
      effect: 'nothing for traffic: the agent counts time by another clock; times in logs before and after do not fit together',
      remedy,
    }),
  ];
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`;
}
