import { safeLine } from '../escape.ts';
import type { Answers } from '../fleet/answers.ts';
import { nodesText } from '../fleet/grouped.ts';
import type { Room, TableColumn } from '../table.ts';
import { groupTable } from './group-table.ts';
import type { NodeSummary, PolicySummary, SummarisedNode } from './node-summary.ts';

const sum = (rows: readonly SummarisedNode[], of: (policy: PolicySummary) => number): string =>
  String(rows.reduce((total, { answer }) => total + of(answer.policy), 0));

/** Agents that follow the API server with different delays see one policy more or less. */
function range(rows: readonly SummarisedNode[], of: (policy: PolicySummary) => number): string {
  const numbers = rows.map(({ answer }) => of(answer.policy));
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  return least === most ? String(least) : `${least} to ${most}`;
}

const columns: readonly TableColumn<readonly SummarisedNode[]>[] = [
  { title: 'POOL', of: ([first]) => first?.pod.pool ?? '' },
  { title: 'MODE', of: ([first]) => first?.answer.policy.mode ?? '' },
  { title: 'NODES', of: (rows) => String(rows.length), align: 'right' },
  { title: 'POLICIES', of: (rows) => range(rows, ({ objects }) => objects), align: 'right' },
  { title: 'ISOLATED PODS', of: (rows) => sum(rows, ({ isolatedPods }) => isolatedPods), align: 'right' },
  { title: 'BLOCKED PODS', of: (rows) => sum(rows, ({ closedPods }) => closedPods), align: 'right' },
  { title: 'SUSPENSIONS', of: (rows) => sum(rows, ({ suspensions }) => suspensions), align: 'right' },
  { title: 'OPENED MANUALLY', of: (rows) => sum(rows, ({ openedByHand }) => openedByHand), align: 'right' },
];

/** Table by pool and mode; a line for each node if there is room. */
export function policyTable({ rows }: Answers<NodeSummary>, room: Room, wide: boolean): string[] {
  return groupTable(columns, rows, ({ pod, answer }) => JSON.stringify([pod.pool, answer.policy.mode]), room, wide);
}

const deviations: readonly (readonly [what: string, is: (policy: PolicySummary) => boolean])[] = [
  ['policies are not enforced', ({ enforcement, mode }) => enforcement !== 'enforced' || mode !== 'enforce'],
  ['pods are blocked', ({ closedPods }) => closedPods > 0],
  ['policies are suspended', ({ suspensions }) => suspensions > 0],
  ['pods are opened manually', ({ openedByHand }) => openedByHand > 0],
  ['less is allowed than policies specify: numbers have run out', ({ shortages }) => shortages > 0],
];

/** Policies that are enforced less, or more, than written. */
export function policyDeviations({ rows }: Answers<NodeSummary>, { paint }: Room): string[] {
  return deviations.flatMap(([what, is]) => {
    const names = rows.filter(({ answer }) => is(answer.policy)).map(({ pod }) => pod.node);
    return names.length === 0 ? [] : [`${paint('bad', '!')} ${safeLine(what)} (${nodesText(names)})`];
  });
}
