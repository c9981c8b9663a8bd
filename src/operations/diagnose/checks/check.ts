import type { CheckName, Finding } from '../../../api/check.ts';
import type { Blocked } from '../firewall/foreign-firewall.ts';

/** Clocks of this host, as a port: a test does not change them. */
export interface Clocks {
  /** Milliseconds since 1970, by the wall clock. */
  wallMs(): number;
  /** Milliseconds since this process began, by a monotonic clock. */
  monotonicMs(): number;
  /** Wall clock time at the start of the monotonic clock. */
  readonly originMs: number;
}

export const machineClocks: Clocks = { wallMs: Date.now, monotonicMs: () => performance.now(), originMs: performance.timeOrigin };

/** Options of one run of the checks, and data that its checks share. */
export interface CheckContext {
  /** Other nodes to try: the one of this name, or this number, chosen at random. */
  readonly peers: { readonly name: string } | { readonly most: number };
  readonly clocks: Clocks;
  /** Packets of pods that other firewall rules drop: tested once, for all checks of a run. @throws SeineError `UNAVAILABLE` */
  readonly blocked: () => Promise<readonly Blocked[]>;
}

export interface FindingReporter {
  finding(finding: Finding): void;
  /** Reports the progress of a long check. */
  progress(says: string): void;
}

/** Check that reports at least one finding, `ok` included. */
export interface Check {
  /** Name of all its findings, which may have a further part after a dot. */
  readonly name: CheckName;
  /** @throws SeineError `UNAVAILABLE` if it cannot check, which becomes a finding `unknown` */
  readonly run: (context: CheckContext, reporter: FindingReporter, signal: AbortSignal) => Promise<void> | void;
}

export function fine(check: CheckName, what: string): Finding {
  return { check, state: 'ok', what };
}

/** A finding that is not ok always has its meaning and, if known, a remedy. */
export function trouble(
  check: CheckName,
  state: 'warning' | 'problem' | 'unknown',
  words: { readonly what: string; readonly effect: string; readonly remedy?: string },
): Finding {
  return { check, state, ...words };
}

export function reportAll(reporter: FindingReporter, findings: Iterable<Finding>): void {
  for (const finding of findings) reporter.finding(finding);
}
