import { safeLine } from '../escape.ts';
import type { Room, TableColumn } from '../table.ts';
import { tableLines } from '../table.ts';
import { duration } from '../words.ts';
import type { Answers, SummarisedNode } from './answers.ts';
import { grouped, nodesText } from './grouped.ts';
import type { NodeSummary } from './node-summary.ts';

/** Nodes with the same pool, versions and modes: a line of the table. */
interface StatusGroup {
  readonly first: SummarisedNode;
  readonly rows: readonly SummarisedNode[];
}

const oldestOf = (rows: readonly SummarisedNode[]): string => {
  const ages = rows.flatMap(({ said: { oldestCheckSeconds: age } }) => (age === null ? [] : [age]));
  return ages.length === 0 ? '' : duration(Math.max(...ages));
};
const groupColumns: readonly TableColumn<StatusGroup>[] = [
  { title: 'POOL', of: ({ first }) => first.pod.pool },
  { title: 'NODES', of: ({ rows }) => String(rows.length), align: 'right' },
  { title: 'READY', of: ({ rows }) => String(rows.filter(({ said }) => said.ready).length), align: 'right' },
  { title: 'WITH PROBLEMS', of: ({ rows }) => String(rows.filter(({ said }) => said.problemCount > 0).length), align: 'right' },
  { title: 'OLDEST CHECK', of: ({ rows }) => oldestOf(rows), align: 'right' },
  { title: 'VERSION', of: ({ first }) => first.said.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ first }) => first.said.versions.ovs },
  { title: 'DATA PATH', of: ({ first }) => first.said.dataPath },
  { title: 'POLICIES', of: ({ first }) => first.said.policy.mode },
];

const nodeColumns: readonly TableColumn<SummarisedNode>[] = [
  { title: 'NODE', of: ({ pod }) => pod.node },
  { title: 'POOL', of: ({ pod }) => pod.pool },
  { title: 'READY', of: ({ said }) => (said.ready ? 'yes' : 'no'), tone: ({ said }) => (said.ready ? 'good' : 'bad') },
  {
    title: 'PROBLEMS',
    of: ({ said }) => String(said.problemCount),
    align: 'right',
    tone: ({ said }) => (said.problemCount > 0 ? 'bad' : undefined),
  },
  { title: 'OLDEST CHECK', of: (row) => oldestOf([row]), align: 'right' },
  { title: 'VERSION', of: ({ said }) => said.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ said }) => said.versions.ovs },
  { title: 'DATA PATH', of: ({ said }) => said.dataPath },
  { title: 'POLICIES', of: ({ said }) => said.policy.mode },
  { title: 'POD', of: ({ pod }) => pod.pod, flexible: true },
];

/** Table by pool, versions and modes; a line for each node if there is room. */
export function statusTable({ rows }: Answers<NodeSummary>, room: Room, wide: boolean): string[] {
  if (rows.length === 0) return [];
  if (wide) return tableLines(nodeColumns, rows, room);
  const groups = grouped(rows, ({ pod, said }) =>
    JSON.stringify([pod.pool, said.versions.seine, said.versions.ovs, said.dataPath, said.policy.mode]),
  ).flatMap(([, of]) => (of[0] === undefined ? [] : [{ first: of[0], rows: of }]));
  return tableLines(groupColumns, groups, room);
}

/** Problems, grouped by kind. */
export function problemsOfFleet({ rows }: Answers<NodeSummary>, { paint }: Room): string[] {
  const sign = paint('bad', '!');
  const notReady = rows.filter(({ said }) => !said.ready);
  const found = rows.flatMap((row) => row.said.problems.map((problem) => ({ row, problem })));
  const unsure = rows.filter(({ said }) => said.staleChecks.length > 0);
  return [
    ...grouped(notReady, ({ said }) => said.reason ?? 'no reason').map(
      ([reason, of]) => `${sign} not ready: ${safeLine(reason)} (${nodesText(namesOf(of))})`,
    ),
    ...grouped(found, ({ problem }) => problem.kind).flatMap(([kind, of]) => [
      `${sign} ${safeLine(kind)} (${nodesText([...new Set(namesOf(of.map(({ row }) => row)))])})`,
      ...messageLines(of),
    ]),
    ...grouped(unsure, ({ said }) => said.staleChecks.join(', ')).map(
      ([checks, of]) => `${paint('warning', '*')} checks overdue: ${safeLine(checks)} (${nodesText(namesOf(of))})`,
    ),
  ];
}

const MESSAGES_SHOWN = 3;

function messageLines(found: readonly { readonly row: SummarisedNode; readonly problem: { readonly message: string } }[]): string[] {
  const messages = grouped(found, ({ problem }) => problem.message);
  const more = messages.length - MESSAGES_SHOWN;
  return [
    ...messages.slice(0, MESSAGES_SHOWN).map(([message, of]) => `    ${safeLine(message)}${of.length > 1 ? ` (${of.length} times)` : ''}`),
    ...(more > 0 ? [`    and ${more} others`] : []),
  ];
}

function namesOf(rows: readonly SummarisedNode[]): string[] {
  return rows.map(({ pod }) => pod.node);
}
