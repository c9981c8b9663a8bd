import { safeLine } from '../escape.ts';
import type { Room } from '../table.ts';
import { count } from '../words.ts';
import type { AgentPod, Fleet } from './agents.ts';
import { grouped, nodesText } from './grouped.ts';
import type { AgentReply } from './query-agent.ts';

export interface NodeAnswer<T> {
  readonly pod: AgentPod;
  readonly answer: T;
}

/** Answers, agents without an answer, and nodes about which nothing can be known. */
export interface Answers<T> {
  readonly rows: readonly NodeAnswer<T>[];
  readonly failures: readonly { readonly pod: AgentPod; readonly failure: string }[];
  readonly fleet: Fleet;
}

export function answersOf<T>(fleet: Fleet, replies: readonly AgentReply<T>[]): Answers<T> {
  return {
    rows: replies.flatMap((reply) => ('answer' in reply ? [{ pod: reply.pod, answer: reply.answer }] : [])),
    failures: replies.flatMap((reply) => ('failure' in reply ? [{ pod: reply.pod, failure: reply.failure }] : [])),
    fleet,
  };
}

/** Reports whether each node that should have an agent is known. */
export function isComplete({ failures, fleet }: Answers<unknown>): boolean {
  return failures.length === 0 && fleet.without?.length === 0;
}

/** Prints nodes about which nothing is known, and nodes whose agents conflict. */
export function gapLines({ rows, failures, fleet }: Answers<unknown>, { paint }: Room): string[] {
  const sign = paint('bad', '?');
  const all = [...rows, ...failures].map(({ pod }) => pod.node).filter((node) => node !== '');
  const several = grouped(all, (node) => node).filter(([, of]) => of.length > 1);
  return [
    ...grouped(failures, withoutNames)
      .slice(0, REASONS_SHOWN)
      .map(([why, of]) => `${sign} no answer: ${safeLine(why)} (${nodesText(of.map(({ pod }) => pod.node || pod.pod))})`),
    ...(fleet.without !== null && fleet.without.length > 0 ? [`${sign} no agent's pod on ${nodesText(fleet.without)}`] : []),
    ...(fleet.without === null
      ? [`${paint('warning', '*')} whether nodes lack an agent is not known: ${safeLine(fleet.unknown ?? '')}`]
      : []),
    ...(several.length > 0 ? [`${paint('warning', '*')} more than one agent on ${nodesText(several.map(([node]) => node))}`] : []),
  ];
}

/** Maximum number of different reasons to print; -o json has all. */
const REASONS_SHOWN = 10;

/** Groups equal reasons: the API server puts the pod's name into its messages. */
function withoutNames({ pod, failure }: { readonly pod: AgentPod; readonly failure: string }): string {
  const named = failure.replaceAll(pod.pod, 'POD');
  return pod.node === '' ? named : named.replaceAll(pod.node, 'NODE');
}

export function headline({ rows, failures }: Answers<unknown>): string {
  const all = rows.length + failures.length;
  return `${count(all, 'agent')}: ${rows.length} answered${failures.length > 0 ? `, ${failures.length} did not` : ''}`;
}

/** JSON for programs: the data of the page. */
export function answersJson<T>({ rows, failures, fleet }: Answers<T>): object {
  return {
    asked: rows.length + failures.length,
    answered: rows.length,
    nodes: rows.map(({ pod, answer }) => ({ node: pod.node, pool: pod.pool, pod: pod.pod, image: pod.image, ...answer })),
    silent: failures.map(({ pod, failure: why }) => ({ node: pod.node, pool: pod.pool, pod: pod.pod, why })),
    nodesWithoutAgent: fleet.without,
  };
}
