import type { Family } from '../../base/net/ip.ts';
import type { PeerPathFacts } from './peer-mode.ts';

/** Number of lost echoes in a row after which a path does not count as working. */
const LOSSES = 3;
/** Number of tests without a result after which a path is no longer new: it is tested as often as others. */
const NEW_TESTS = 10;
/** Time for which a path that has lost echoes is not used (ms); doubled each time. */
const avoidedMs = { first: 300_000, most: 3_600_000 } as const;

/** Outcome of one round for one path. */
export interface EchoRound {
  /** The peer's gateway has answered an echo without a tunnel. */
  readonly direct: boolean;
  /** The peer's transport address has answered: the peer runs, and the link works. */
  readonly transport: boolean;
}

interface PathState {
  readonly result: PeerPathFacts['echo'];
  /** Number of tests while there was no result. */
  readonly tests: number;
  readonly losses: number;
  readonly avoidedUntilMs: number;
  readonly nextAvoidedMs: number;
}

const unknown: PathState = { result: 'unknown', tests: 0, losses: 0, avoidedUntilMs: 0, nextAvoidedMs: avoidedMs.first };

/**
 * Results of echoes to peers without a tunnel, by peer and family. A network that drops pods' addresses answers the transport address only;
 * losses while that is silent too are no evidence.
 */
export class PathVerification {
  readonly #now: () => number;
  readonly #paths = new Map<string, PathState>();

  /** @param now monotonic (ms) */
  constructor(now: () => number) {
    this.#now = now;
  }

  resultOf(peer: string, family: Family): PeerPathFacts['echo'] {
    return this.#stateOf(peer, family).result;
  }

  /** Reports whether a path has no result yet, and only a few tests. */
  isNew(peer: string, family: Family): boolean {
    const { result, tests } = this.#stateOf(peer, family);
    return result === 'unknown' && tests < NEW_TESTS;
  }

  /** Assumes that a path works until echoes are lost: a previous agent has used it. */
  inherit(peer: string, family: Family): void {
    if (!this.#paths.has(keyOf(peer, family))) this.#paths.set(keyOf(peer, family), { ...unknown, result: 'answered' });
  }

  /** @returns true if the result has changed */
  note(peer: string, family: Family, round: EchoRound): boolean {
    const before = this.#stateOf(peer, family);
    const { tests } = before;
    const after = { ...nextState(before, round, this.#now()), tests: Math.min(tests + 1, NEW_TESTS) };
    this.#paths.set(keyOf(peer, family), after);
    return after.result !== before.result;
  }

  forget(peer: string): void {
    for (const family of ['ipv4', 'ipv6'] as const) this.#paths.delete(keyOf(peer, family));
  }

  #stateOf(peer: string, family: Family): PathState {
    return this.#paths.get(keyOf(peer, family)) ?? unknown;
  }
}

function nextState(before: PathState, { direct, transport }: EchoRound, now: number): PathState {
  if (direct) return now < before.avoidedUntilMs ? { ...before, losses: 0 } : { ...before, losses: 0, result: 'answered' };
  if (!transport) return before;
  const losses = before.losses + 1;
  if (losses < LOSSES) return { ...before, losses };
  if (before.result === 'lost') return { ...before, losses: 0 };
  const nextAvoidedMs = Math.min(2 * before.nextAvoidedMs, avoidedMs.most);
  return { ...before, result: 'lost', losses: 0, avoidedUntilMs: now + before.nextAvoidedMs, nextAvoidedMs };
}

function keyOf(peer: string, family: Family): string {
  return `${family} ${peer}`;
}
