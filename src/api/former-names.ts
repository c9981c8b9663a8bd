import type { Finding } from './check.ts';
import type { HealthReport, Problem } from './problem.ts';
import type { AgentStatus } from './status.ts';

/*
 * Names of members and checks up to 0.23, and of a verdict and a kind up to 0.25. Answers have them beside the present names until 0.26 and
 * 0.27, so that agents, seinectl and scripts of neighbouring releases understand each other.
 */

const formerChecks: Readonly<Partial<Record<string, string>>> = { 'tunnel.unknownPeers': 'tunnel.strangers' };
const presentChecks = Object.fromEntries(Object.entries(formerChecks).map(([present, former]) => [former, present]));

/** Members of a problem or finding up to 0.23. */
interface FormerRemedy {
  readonly remedy?: string | undefined;
  readonly mend?: string | undefined;
}

/** Returns the remedy of a problem or finding of any release. */
export function remedyOf({ remedy, mend }: FormerRemedy): string | undefined {
  return remedy ?? mend;
}

/** Adds `mend` to a finding, and `formerCheck` if its check had another name. */
export function withFormerNames(finding: Finding): Finding & { readonly formerCheck?: string } {
  const formerCheck = formerChecks[finding.check];
  return { ...withFormerRemedy(finding), ...(formerCheck === undefined ? {} : { formerCheck }) };
}

/** Converts a finding of any release to the present names. */
export function presentFinding({ mend, ...finding }: Finding & FormerRemedy): Finding {
  const check = presentChecks[finding.check] ?? finding.check;
  // An older agent has only names that are in the table, or are unchanged.
  const present = { ...finding, check: check as Finding['check'] };
  return present.remedy === undefined && mend !== undefined ? { ...present, remedy: mend } : present;
}

/** Verdict `not all checked` up to 0.25. */
export const formerVerdict = 'not all looked at';
/** Kinds of problems up to 0.25. */
const formerKinds: Readonly<Partial<Record<string, string>>> = { 'check.failing': 'look.failing' };

/** Adds `looks`, `formerVerdict` if the verdict had another name, and `mend` and `formerKind` to problems. */
export function healthWithFormerNames(report: HealthReport): HealthReport & Pick<AgentStatus, 'looks' | 'formerVerdict'> {
  return {
    ...report,
    problems: report.problems.map(problemWithFormerNames),
    looks: report.healthChecks,
    ...(report.verdict === 'not all checked' ? { formerVerdict } : {}),
  };
}

function problemWithFormerNames(problem: Problem): Problem {
  const formerKind = formerKinds[problem.kind];
  return { ...withFormerRemedy(problem), ...(formerKind === undefined ? {} : { formerKind }) };
}

/** Returns the periodic checks of a status of any release. */
export function healthChecksOf({ healthChecks, looks = [] }: Pick<AgentStatus, 'healthChecks' | 'looks'>): HealthReport['healthChecks'] {
  return healthChecks ?? looks;
}

function withFormerRemedy<T extends FormerRemedy>(value: T): T {
  return value.remedy === undefined ? value : { ...value, mend: value.remedy };
}
