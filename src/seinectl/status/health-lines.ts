import type { LookStatus, Problem } from '../../api/problem.ts';
import type { AgentStatus } from '../../api/status.ts';
import { safeLine } from '../escape.ts';
import type { Room } from '../table.ts';
import { count, duration } from '../words.ts';
import { problemsOfOlderAgent } from './problems-of-older-agents.ts';

/** Problems, each with its remedy if one is known. */
export function problemLines(status: AgentStatus, { paint }: Pick<Room, 'paint'>): readonly string[] {
  const sign = paint('bad', '!');
  if (status.problems === undefined) return problemsOfOlderAgent(status).map((problem) => `${sign} ${safeLine(problem)}`);
  return status.problems.flatMap(({ message, ageSeconds, mend }: Problem) => [
    `${sign} ${safeLine(message)} (for ${duration(ageSeconds)})`,
    ...(mend === undefined ? [] : [`  mend: ${safeLine(mend)}`]),
  ]);
}

/** The all-clear is printed only if every periodic check ran within its interval. */
export function verdictLines(status: AgentStatus, { paint }: Pick<Room, 'paint'>): readonly string[] {
  const { verdict = problemsOfOlderAgent(status).length === 0 ? 'no problems' : 'problems', looks = [] } = status;
  if (verdict === 'no problems') return [paint('good', 'No problems.')];
  const stale = staleOf(looks);
  return verdict === 'problems' ? [] : [paint('warning', `No problem is known, but not all was looked at: ${stale.join(', ')}`)];
}

/** Age of the periodic checks, in a line; undefined for an agent that does not report it. */
export function looksText({ looks = [] }: AgentStatus): string | undefined {
  if (looks.length === 0) return undefined;
  const stale = staleOf(looks);
  const oldest = looks.reduce((most, { ageSeconds }) => Math.max(most, ageSeconds ?? 0), 0);
  if (stale.length === 0) return `all ${looks.length} within their round, the oldest ${duration(oldest)} ago`;
  return `${count(stale.length, 'look')} of ${looks.length} missing: ${stale.join(', ')}`;
}

function staleOf(looks: readonly LookStatus[]): readonly string[] {
  return looks
    .filter(({ state }) => state !== 'fresh')
    .map(({ name, ageSeconds, everySeconds }) =>
      ageSeconds === null
        ? `${safeLine(name)} (not yet)`
        : `${safeLine(name)} (${duration(ageSeconds)} ago, due every ${duration(everySeconds)})`,
    );
}
