import type { CheckName, Finding } from '../../agent-api/check.ts';
import type { Agent } from '../agent.ts';
import type { Blocked } from '../foreign-firewall.ts';

/** The clocks of this machine, as a port: nobody wants to turn them for a test. */
export interface Clocks {
  /** Milliseconds since 1970, as anybody may have set them. */
  wallMs(): number;
  /** Milliseconds since this process began, of a clock that only goes forward. */
  monotonicMs(): number;
  /** What the first clock showed when the second began. */
  readonly originMs: number;
}

export const machineClocks: Clocks = { wallMs: Date.now, monotonicMs: () => performance.now(), originMs: performance.timeOrigin };

export interface CheckContext {
  readonly agent: Agent;
  /** Which other nodes are asked: the one of a name, all, or so many by lot. */
  readonly peers: { readonly name: string } | { readonly most: number };
  readonly clocks: Clocks;
  /** What somebody else's packet filter drops of pods' packets: found once, for all checks that ask. @throws SeineError `UNAVAILABLE` */
  readonly blocked: () => Promise<readonly Blocked[]>;
}

export interface Telling {
  finding(finding: Finding): void;
  /** For what takes long: how far it has come. */
  progress(says: string): void;
}

/** Looks at one thing and tells what it found, at least one finding, `ok` included. */
export interface Check {
  /** Of all its findings, which may have a further part behind a dot. */
  readonly name: CheckName;
  /** @throws SeineError `UNAVAILABLE` if it cannot look, which becomes a finding `unknown` */
  readonly run: (context: CheckContext, tell: Telling, signal: AbortSignal) => Promise<void> | void;
}

export function fine(check: CheckName, what: string): Finding {
  return { check, state: 'ok', what };
}

/** Something that is not as it should be always says what it means and, where anybody can say, how to mend it. */
export function trouble(
  check: CheckName,
  state: 'warning' | 'problem' | 'unknown',
  words: { readonly what: string; readonly effect: string; readonly mend?: string },
): Finding {
  return { check, state, ...words };
}

export function tellAll(tell: Telling, findings: Iterable<Finding>): void {
  for (const finding of findings) tell.finding(finding);
}
