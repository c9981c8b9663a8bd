import type { HealthReport, Problem } from './problem.ts';
import type { AgentStatus } from './status.ts';

/*
 * Names of a verdict and of a kind of problems up to 0.25. Answers have them beside the present names until 0.27, so that agents, seinectl
 * and scripts of neighbouring releases understand each other.
 */

/** Verdict `not all checked` up to 0.25. */
export const formerVerdict = 'not all looked at';
/** Kinds of problems up to 0.25. */
const formerKinds: Readonly<Partial<Record<string, string>>> = { 'check.failing': 'look.failing' };

/** Adds `formerVerdict` if the verdict had another name, and `formerKind` to problems. */
export function healthWithFormerNames(report: HealthReport): HealthReport & Pick<AgentStatus, 'formerVerdict'> {
  return {
    ...report,
    problems: report.problems.map(problemWithFormerNames),
    ...(report.verdict === 'not all checked' ? { formerVerdict } : {}),
  };
}

function problemWithFormerNames(problem: Problem): Problem {
  const formerKind = formerKinds[problem.kind];
  return { ...problem, ...(formerKind === undefined ? {} : { formerKind }) };
}
