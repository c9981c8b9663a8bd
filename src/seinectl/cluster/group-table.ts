import type { NodeAnswer } from '../fleet/answers.ts';
import { grouped } from '../fleet/grouped.ts';
import { type Room, type TableColumn, tableLines } from '../table.ts';

/** Prints a line for each group of nodes, or for each node if there is room. @param groupOf common values of the nodes of a group */
export function groupTable<T>(
  columns: readonly TableColumn<readonly NodeAnswer<T>[]>[],
  rows: readonly NodeAnswer<T>[],
  groupOf: (row: NodeAnswer<T>) => string,
  room: Room,
  wide: boolean,
): string[] {
  if (rows.length === 0) return [];
  const nodeColumn: TableColumn<readonly NodeAnswer<T>[]> = { title: 'NODE', of: ([first]) => first?.pod.node ?? '' };
  const groups = wide ? rows.map((row) => [row]) : grouped(rows, groupOf).map(([, of]) => of);
  return tableLines(wide ? [nodeColumn, ...columns.filter(({ title }) => title !== 'NODES')] : columns, groups, room);
}
