import { safeLine } from '../escape.ts';
import type { Answers } from '../fleet/answers.ts';
import { grouped, nodesText } from '../fleet/grouped.ts';
import type { Room, TableColumn } from '../table.ts';
import { tableLines } from '../table.ts';
import { duration } from '../words.ts';
import { isReplaced, lostNodes } from './mesh-report.ts';
import type { NodeSummary, SummarisedNode } from './node-summary.ts';

/** Nodes with the same pool, versions and modes: a line of the table. */
interface StatusGroup {
  readonly first: SummarisedNode;
  readonly rows: readonly SummarisedNode[];
}

const oldestOf = (rows: readonly SummarisedNode[]): string => {
  const ages = rows.flatMap(({ answer: { oldestCheckSeconds: age } }) => (age === null ? [] : [age]));
  return ages.length === 0 ? '' : duration(Math.max(...ages));
};
const groupColumns: readonly TableColumn<StatusGroup>[] = [
  { title: 'POOL', of: ({ first }) => first.pod.pool },
  { title: 'NODES', of: ({ rows }) => String(rows.length), align: 'right' },
  { title: 'READY', of: ({ rows }) => String(rows.filter(({ answer }) => answer.ready).length), align: 'right' },
  { title: 'WITH PROBLEMS', of: ({ rows }) => String(rows.filter(({ answer }) => answer.problemCount > 0).length), align: 'right' },
  { title: 'OLDEST CHECK', of: ({ rows }) => oldestOf(rows), align: 'right' },
  { title: 'VERSION', of: ({ first }) => first.answer.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ first }) => first.answer.versions.ovs },
  { title: 'DATA PATH', of: ({ first }) => first.answer.dataPath },
  { title: 'POLICIES', of: ({ first }) => first.answer.policy.mode },
];

const nodeColumns: readonly TableColumn<SummarisedNode>[] = [
  { title: 'NODE', of: ({ pod }) => pod.node },
  { title: 'POOL', of: ({ pod }) => pod.pool },
  { title: 'READY', of: ({ answer }) => (answer.ready ? 'yes' : 'no'), tone: ({ answer }) => (answer.ready ? 'good' : 'bad') },
  {
    title: 'PROBLEMS',
    of: ({ answer }) => String(answer.problemCount),
    align: 'right',
    tone: ({ answer }) => (answer.problemCount > 0 ? 'bad' : undefined),
  },
  { title: 'OLDEST CHECK', of: (row) => oldestOf([row]), align: 'right' },
  { title: 'VERSION', of: ({ answer }) => answer.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ answer }) => answer.versions.ovs },
  { title: 'DATA PATH', of: ({ answer }) => answer.dataPath },
  { title: 'POLICIES', of: ({ answer }) => answer.policy.mode },
  { title: 'POD', of: ({ pod }) => pod.pod, flexible: true },
];

/** Table by pool, versions and modes; a line for each node if there is room. */
export function statusTable({ rows }: Answers<NodeSummary>, room: Room, wide: boolean): string[] {
  if (rows.length === 0) return [];
  if (wide) return tableLines(nodeColumns, rows, room);
  const groups = grouped(rows, ({ pod, answer }) =>
    JSON.stringify([pod.pool, answer.versions.seine, answer.versions.ovs, answer.dataPath, answer.policy.mode]),
  ).flatMap(([, of]) => (of[0] === undefined ? [] : [{ first: of[0], rows: of }]));
  return tableLines(groupColumns, groups, room);
}

/** Problems, grouped by kind. */
export function problemsOfFleet({ rows, failures, fleet }: Answers<NodeSummary>, { paint }: Room): string[] {
  const sign = paint('bad', '!');
  const notReady = rows.filter(({ answer }) => !answer.ready);
  const all = rows.flatMap((row) =>
    row.answer.problems.map((problem) => ({ row, problem, node: row.pod.node, kind: problem.kind, about: problem.about })),
  );
  const lost = lostNodes(all, rows.length + failures.length + (fleet.without?.length ?? 0));
  const found = all.filter((each) => !isReplaced(each, lost));
  const unsure = rows.filter(({ answer }) => answer.staleChecks.length > 0);
  return [
    ...grouped(notReady, ({ answer }) => answer.reason ?? 'no reason').map(
      ([reason, of]) => `${sign} not ready: ${safeLine(reason)} (${nodesText(namesOf(of))})`,
    ),
    ...lost.map(
      ({ name, observers, of }) =>
        `${sign} mesh.peer: ${observers} of the ${of} nodes that observe ${safeLine(name)} do not reach it as usual`,
    ),
    ...grouped(found, ({ problem }) => problem.kind).flatMap(([kind, of]) => [
      `${sign} ${safeLine(kind)} (${nodesText([...new Set(namesOf(of.map(({ row }) => row)))])})`,
      ...messageLines(of),
    ]),
    ...grouped(unsure, ({ answer }) => answer.staleChecks.join(', ')).map(
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
