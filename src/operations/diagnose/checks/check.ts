import type { CheckName, Finding } from '../../../api/check.ts';
import type { Blocked } from '../firewall/foreign-firewall.ts';

/** The clocks of this machine, as a port: a test does not turn them. */
export interface Clocks {
  /** Milliseconds since 1970, as the clock was last set. */
  wallMs(): number;
  /** Milliseconds since this process began, of a clock that only goes forward. */
  monotonicMs(): number;
  /** What the first clock showed when the second began. */
  readonly originMs: number;
}

export const machineClocks: Clocks = { wallMs: Date.now, monotonicMs: () => performance.now(), originMs: performance.timeOrigin };

/** How one run of the checks was asked for, and what its checks share. */
export interface CheckContext {
  /** Which other nodes are tried: the one of this name, or this many, drawn at random. */
  readonly peers: { readonly name: string } | { readonly most: number };
  readonly clocks: Clocks;
  /** Which of pods' packets a foreign packet filter drops: tested once, for all checks of a run. @throws SeineError `UNAVAILABLE` */
  readonly blocked: () => Promise<readonly Blocked[]>;
}

export interface FindingReporter {
  finding(finding: Finding): void;
  /** For what takes long: how far it has come. */
  progress(says: string): void;
}

/** Looks at one thing and tells what it found, at least one finding, `ok` included. */
export interface Check {
  /** Of all its findings, which may have a further part behind a dot. */
  readonly name: CheckName;
  /** @throws SeineError `UNAVAILABLE` if it cannot look, which becomes a finding `unknown` */
  readonly run: (context: CheckContext, tell: FindingReporter, signal: AbortSignal) => Promise<void> | void;
}

export function fine(check: CheckName, what: string): Finding {
  return { check, state: 'ok', what };
}

/** Something that is not as it should be always says what it means and, where that is known, how to mend it. */
export function trouble(
  check: CheckName,
  state: 'warning' | 'problem' | 'unknown',
  words: { readonly what: string; readonly effect: string; readonly mend?: string },
): Finding {
  return { check, state, ...words };
}

export function reportAll(tell: FindingReporter, findings: Iterable<Finding>): void {
  for (const finding of findings) tell.finding(finding);
}
