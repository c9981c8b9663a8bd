import type { Family } from '../../base/net/ip.ts';
import type { EchoOutcome } from '../../netlink/packets/icmp-echo.ts';

/** State of the path to a peer in one family. `unknown`: it has not answered since it is observed. */
export type MeshState = 'unknown' | 'reached' | 'slow' | 'lost' | 'mtu';

/** Number of echoes in a row that decide. */
const CONFIRMED = 3;
/** Minimum round trip of a slow path (ms), and its ratio to the usual one. */
const SLOW_MS = 20;
const SLOW_RATIO = 5;
/** Weight of a new round trip in the usual one. */
const WEIGHT = 1 / 32;
/** Time after which a path that never answered is lost (ms): a node that joins needs a while. */
const PATIENCE_MS = 60_000;

export interface MeshEcho {
  readonly size: 'small' | 'full';
  readonly outcome: EchoOutcome;
  /** Milliseconds. */
  readonly rttMs: number;
  readonly atMs: number;
}

/** Path to a peer, from gateway to gateway. */
export class MeshPath {
  readonly peer: string;
  readonly family: Family;
  readonly #sinceMs: number;
  state: MeshState = 'unknown';
  /** Time of the present state (ms, monotonic). */
  stateMs: number;
  /** Last round trip (ms). */
  rttMs: number | undefined;
  /** True if the peer answers outside the tunnel while it is lost. */
  outside: boolean | undefined;
  losses = 0;
  #usualMs: number | undefined;
  #slow = 0;
  #fullLosses = 0;

  constructor(peer: string, family: Family, nowMs: number) {
    this.peer = peer;
    this.family = family;
    this.#sinceMs = nowMs;
    this.stateMs = nowMs;
  }

  /** True if the next echo should come after a second: the last ones are not decided, or the path is lost. */
  get isUrgent(): boolean {
    return this.losses > 0 || (this.#fullLosses > 0 && this.state !== 'mtu') || (this.#slow > 0 && this.state !== 'slow');
  }

  /** True if the next echo should also be sent in full size. */
  get needsFull(): boolean {
    return this.#fullLosses > 0;
  }

  /** Notes the outcome of an echo. @returns the new state, if it changed */
  note(echo: MeshEcho): MeshState | undefined {
    const before = this.state;
    if (echo.size === 'full') this.#noteFull(echo);
    else if (echo.outcome === 'answered') this.#noteAnswer(echo);
    else this.#noteLoss(echo);
    if (this.state === before) return undefined;
    this.stateMs = echo.atMs;
    return this.state;
  }

  #noteAnswer({ rttMs }: MeshEcho): void {
    this.losses = 0;
    this.outside = undefined;
    this.rttMs = rttMs;
    const usual = this.#usualMs ?? rttMs;
    const isSlow = rttMs > Math.max(SLOW_MS, usual * SLOW_RATIO);
    this.#usualMs = usual + (rttMs - usual) * (isSlow ? WEIGHT / 16 : WEIGHT);
    this.#slow = isSlow ? this.#slow + 1 : 0;
    if (this.#fullLosses >= CONFIRMED) this.state = 'mtu';
    else if (this.#slow >= CONFIRMED || (this.state === 'slow' && isSlow)) this.state = 'slow';
    else if (this.state !== 'slow' || !isSlow) this.state = 'reached';
  }

  #noteLoss({ atMs }: MeshEcho): void {
    this.losses++;
    this.#slow = 0;
    const mayDecide = this.state !== 'unknown' || atMs - this.#sinceMs >= PATIENCE_MS;
    if (this.losses >= CONFIRMED && mayDecide) this.state = 'lost';
  }

  /** Only sent after a small echo was answered. */
  #noteFull({ outcome }: MeshEcho): void {
    this.#fullLosses = outcome === 'answered' ? 0 : this.#fullLosses + 1;
    if (this.#fullLosses >= CONFIRMED) this.state = 'mtu';
    else if (this.state === 'mtu' && this.#fullLosses === 0) this.state = 'reached';
  }
}
