import { safeLine } from '../escape.ts';
import type { Room } from '../table.ts';
import { count } from '../words.ts';
import type { AgentPod, Fleet } from './agents.ts';
import { grouped, nodesText } from './grouped.ts';
import type { NodeSummary } from './node-summary.ts';
import type { AgentReply } from './query-agent.ts';

export interface NodeAnswer<T> {
  readonly pod: AgentPod;
  readonly said: T;
}

export type SummarisedNode = NodeAnswer<NodeSummary>;

/** Answers, agents without an answer, and nodes about which nothing can be known. */
export interface Answers<T> {
  readonly rows: readonly NodeAnswer<T>[];
  readonly silent: readonly { readonly pod: AgentPod; readonly silent: string }[];
  readonly fleet: Fleet;
}

export function answersOf<T>(fleet: Fleet, replies: readonly AgentReply<T>[]): Answers<T> {
  return {
    rows: replies.flatMap((reply) => ('said' in reply ? [{ pod: reply.pod, said: reply.said }] : [])),
    silent: replies.flatMap((reply) => ('silent' in reply ? [{ pod: reply.pod, silent: reply.silent }] : [])),
    fleet,
  };
}

/** Reports whether each node that should have an agent is known. */
export function isComplete({ silent, fleet }: Answers<unknown>): boolean {
  return silent.length === 0 && fleet.without?.length === 0;
}

/** Prints nodes about which nothing is known, and nodes whose agents conflict. */
export function gapLines({ rows, silent, fleet }: Answers<unknown>, { paint }: Room): string[] {
  const sign = paint('bad', '?');
  const all = [...rows, ...silent].map(({ pod }) => pod.node).filter((node) => node !== '');
  const several = grouped(all, (node) => node).filter(([, of]) => of.length > 1);
  return [
    ...grouped(silent, withoutNames)
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
function withoutNames({ pod, silent }: { readonly pod: AgentPod; readonly silent: string }): string {
  const named = silent.replaceAll(pod.pod, 'POD');
  return pod.node === '' ? named : named.replaceAll(pod.node, 'NODE');
}

export function headline({ rows, silent }: Answers<unknown>): string {
  const all = rows.length + silent.length;
  return `${count(all, 'agent')}: ${rows.length} answered${silent.length > 0 ? `, ${silent.length} did not` : ''}`;
}

/** JSON for programs: the data of the page. */
export function answersJson<T>({ rows, silent, fleet }: Answers<T>): object {
  return {
    asked: rows.length + silent.length,
    answered: rows.length,
    nodes: rows.map(({ pod, said }) => ({ node: pod.node, pool: pod.pool, pod: pod.pod, image: pod.image, ...said })),
    silent: silent.map(({ pod, silent: why }) => ({ node: pod.node, pool: pod.pool, pod: pod.pod, why })),
    nodesWithoutAgent: fleet.without,
  };
}
