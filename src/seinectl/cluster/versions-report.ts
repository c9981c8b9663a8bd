import type { Answers } from '../fleet/answers.ts';
import { grouped } from '../fleet/grouped.ts';
import { type Room, type TableColumn, tableLines } from '../table.ts';
import type { NodeSummary, SummarisedNode } from './node-summary.ts';

const columns: readonly TableColumn<{ readonly first: SummarisedNode; readonly rows: readonly SummarisedNode[] }>[] = [
  { title: 'POOL', of: ({ first }) => first.pod.pool },
  { title: 'NODES', of: ({ rows }) => String(rows.length), align: 'right' },
  { title: 'VERSION', of: ({ first }) => first.answer.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ first }) => first.answer.versions.ovs },
  { title: 'NODE.JS', of: ({ first }) => first.answer.versions.node },
  { title: 'IMAGE', of: ({ first }) => first.pod.image },
  {
    title: 'FIRST OF THEM',
    of: ({ rows }) =>
      rows
        .slice(0, 3)
        .map(({ pod }) => pod.node)
        .join(', '),
    flexible: true,
  },
];

const wideColumns: readonly TableColumn<SummarisedNode>[] = [
  { title: 'NODE', of: ({ pod }) => pod.node },
  { title: 'POOL', of: ({ pod }) => pod.pool },
  { title: 'VERSION', of: ({ answer }) => answer.versions.seine },
  { title: 'OPEN VSWITCH', of: ({ answer }) => answer.versions.ovs },
  { title: 'NODE.JS', of: ({ answer }) => answer.versions.node },
  { title: 'IMAGE', of: ({ pod }) => pod.image, flexible: true },
];

/** Running versions, with the number of nodes of each. */
export function versionsTable({ rows }: Answers<NodeSummary>, room: Room, wide: boolean): string[] {
  if (rows.length === 0) return [];
  if (wide) return tableLines(wideColumns, rows, room);
  const groups = grouped(rows, ({ pod, answer: { versions } }) =>
    JSON.stringify([pod.pool, versions.seine, versions.ovs, versions.node, pod.image]),
  ).flatMap(([, of]) => (of[0] === undefined ? [] : [{ first: of[0], rows: of }]));
  return tableLines(columns, groups, room);
}
