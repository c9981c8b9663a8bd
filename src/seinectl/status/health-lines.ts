import type { HealthCheckStatus } from '../../api/problem.ts';
import type { AgentStatus } from '../../api/status.ts';
import { safeLine } from '../escape.ts';
import type { Room } from '../table.ts';
import { duration } from '../words.ts';
import { problemsOfOlderAgent } from './problems-of-older-agents.ts';

/** Problems, each with its remedy if one is known. */
export function problemLines(status: AgentStatus, { paint }: Pick<Room, 'paint'>): readonly string[] {
  const sign = paint('bad', '!');
  if (status.problems === undefined) return problemsOfOlderAgent(status).map((problem) => `${sign} ${safeLine(problem)}`);
  return status.problems.flatMap((problem) => {
    const { remedy } = problem;
    return [
      `${sign} ${safeLine(problem.message)} (for ${duration(problem.ageSeconds)})`,
      ...(remedy === undefined ? [] : [`  remedy: ${safeLine(remedy)}`]),
    ];
  });
}

/** The all-clear is printed only if every periodic check ran within its interval. */
export function verdictLines(status: AgentStatus, { paint }: Pick<Room, 'paint'>): readonly string[] {
  const { verdict = problemsOfOlderAgent(status).length === 0 ? 'no problems' : 'problems' } = status;
  if (verdict === 'no problems') return [paint('good', 'No problems.')];
  const stale = staleOf(status.healthChecks ?? []);
  return verdict === 'problems' ? [] : [paint('warning', `No known problems, but some checks are overdue: ${stale.join(', ')}`)];
}

/** Age of the periodic checks, in a line; undefined for an agent that does not report it. */
export function healthChecksText(status: AgentStatus): string | undefined {
  const checks = status.healthChecks ?? [];
  if (checks.length === 0) return undefined;
  const stale = staleOf(checks);
  const oldest = checks.reduce((most, { ageSeconds }) => Math.max(most, ageSeconds ?? 0), 0);
  if (stale.length === 0) return `all ${checks.length} on time, the oldest ${duration(oldest)} ago`;
  return `${stale.length} of ${checks.length} overdue: ${stale.join(', ')}`;
}

function staleOf(checks: readonly HealthCheckStatus[]): readonly string[] {
  return checks
    .filter(({ state }) => state !== 'fresh')
    .map(({ name, ageSeconds, everySeconds }) =>
      ageSeconds === null
        ? `${safeLine(name)} (not yet)`
        : `${safeLine(name)} (${duration(ageSeconds)} ago, due every ${duration(everySeconds)})`,
    );
}
