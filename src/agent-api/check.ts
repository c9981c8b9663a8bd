/**
 * How one thing was found:
 *
 * - `ok`       as it should be
 * - `warning`  works, and may not for long, or not for everybody
 * - `problem`  packets or pods are lost by it
 * - `unknown`  it could not be looked at, or not in time
 */
export const findingStates = ['ok', 'warning', 'problem', 'unknown'] as const;
export type FindingState = (typeof findingStates)[number];

/** What a check found, for people. */
export interface Finding {
  /** Name of the check; stable, for scripts. */
  readonly check: string;
  readonly state: FindingState;
  /** What is there, and what is wrong with it. */
  readonly what: string;
  /** What it means for traffic and pods. Of everything that is not `ok`. */
  readonly effect?: string;
  /** How to mend it, one command where one does it. */
  readonly mend?: string;
}

/**
 * What `POST /v1/check` answers: one of these as JSON on each line, as soon as it is known. The plan comes first; an answer that
 * broke off has no end.
 */
export type CheckEvent =
  | { readonly kind: 'plan'; readonly node: string; readonly facts: AgentFacts; readonly checks: readonly string[] }
  | { readonly kind: 'progress'; readonly says: string }
  | { readonly kind: 'finding'; readonly finding: Finding }
  | { readonly kind: 'end' };

/** What the other half of the check, on the node's files, has to know of the agent. */
export interface AgentFacts {
  readonly version: string;
  /** Where the plugin reaches it. */
  readonly cniSocket: string;
}
