import type { NodesGroup } from '../../ui/answers/cluster-now.ts';
import type { AgentPod } from '../fleet/agents.ts';
import type { Answers } from '../fleet/answers.ts';
import { grouped } from '../fleet/grouped.ts';

/** Names of nodes in a group, and characters of its text. */
export const NAMES_LISTED = 20;
export const TEXT_CHARACTERS_MAX = 500;

/** Groups items of nodes by a text. */
export function groupsOf<T extends { readonly pod: Pick<AgentPod, 'node'> }>(
  items: readonly T[],
  textOf: (item: T) => string,
): NodesGroup[] {
  return grouped(items, textOf).map(([text, of]) => ({
    text: text.slice(0, TEXT_CHARACTERS_MAX),
    ...namesOf(of.map(({ pod }) => pod.node)),
  }));
}

/** Number of nodes, and the first names. */
export function namesOf(nodes: readonly string[]): Omit<NodesGroup, 'text'> {
  const names = [...new Set(nodes)];
  return { count: names.length, nodes: names.slice(0, NAMES_LISTED) };
}

/** Groups agents without an answer by the reason, in which the names of pod and node are left out. */
export function silentGroups(failures: Answers<unknown>['failures']): NodesGroup[] {
  return groupsOf(failures, ({ pod, failure }) =>
    isOfOlderAgent(failure)
      ? `The agent is of an older release, which does not answer this question (image ${pod.image}).`
      : failure.replaceAll(pod.pod, 'POD').replaceAll(pod.node || pod.pod, 'NODE'),
  );
}

/** Reports whether an agent lacks the path (operations/admin/http-server.ts), or, before the exec relay, its seinectl the command or option. */
function isOfOlderAgent(failure: string): boolean {
  return /^nothing at "\/v1\/|^seinectl ended with \d+: error: unknown (?:command|option) /.test(failure);
}
