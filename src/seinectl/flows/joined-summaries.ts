import type { FlowSummaries, FlowSummary } from '../../api/flow-log.ts';
import { pairText } from './flow-lines.ts';

/**
 * Joins the sums of several nodes. A connection between two nodes is counted by both: by the node of the source, which knows the Service,
 * and by that of the destination, which knows whether its policies admit it. What the destination denied is `allowed` at the source, and
 * is subtracted there. Pure.
 */
export function joinedSummaries(answers: readonly FlowSummaries[], namespace: string | undefined): readonly FlowSummary[] {
  const isOf = (end: string): boolean => namespace === undefined || end.startsWith(`${namespace}/`);
  const pairs = new Map<string, FlowSummary[]>();
  for (const { items } of answers)
    for (const item of items) {
      if (!isOf(item.source) && !isOf(item.destination)) continue;
      const pair = JSON.stringify([item.source, item.destination, item.protocol, item.port]);
      const known = pairs.get(pair);
      if (known) known.push(item);
      else pairs.set(pair, [item]);
    }
  const joined = [...pairs.values()].flatMap(joinedPair);
  return joined.sort((a, b) => b.connections - a.connections || (pairText(a) < pairText(b) ? -1 : 1));
}

/** Joins the sums of one pair of ends and one port. */
function joinedPair(items: readonly FlowSummary[]): readonly FlowSummary[] {
  const [sent, received] = (['source', 'destination'] as const).map((end) => summedBy(items.filter(({ reporter }) => reporter === end)));
  const ofOneNode = items.filter(({ reporter = 'both' }) => reporter === 'both');
  return summedBy([...ofOneNode, ...joinedEnds(sent ?? [], received ?? [])]);
}

/** Joins the sums of the nodes of both ends. */
function joinedEnds(sent: readonly FlowSummary[], received: readonly FlowSummary[]): readonly FlowSummary[] {
  const services = new Set(sent.map(({ service }) => service));
  const [onlyService] = services.size === 1 ? services : [];
  const named = (item: FlowSummary): FlowSummary => (onlyService === undefined ? item : { ...item, service: onlyService });
  const denied = received.filter(({ verdict }) => verdict === 'denied' || verdict === 'refused');
  const admitted = received.filter((item) => !denied.includes(item)).map(named);
  const left = subtracted(sent, total(denied));
  const ofSender = left.filter(({ verdict }) => verdict === 'allowed');
  const others = left.filter(({ verdict }) => verdict !== 'allowed');
  return [...others, ...denied.map(named), ...joinedAllowed(ofSender, admitted)];
}

/** Joins admitted connections: one row of each end is the same connections, of which one node may have recorded fewer. */
function joinedAllowed(sent: readonly FlowSummary[], received: readonly FlowSummary[]): readonly FlowSummary[] {
  const [first, ...more] = received;
  const [own, ...others] = sent;
  if (first === undefined) return sent;
  if (own === undefined || more.length > 0 || others.length > 0) return received;
  const most = own.connections >= first.connections ? own : first;
  return [{ ...own, ...first, ...most }];
}

/** Subtracts a number of connections from the admitted ones, the largest row first. Rows without a connection and without bytes end. */
function subtracted(items: readonly FlowSummary[], number: number): readonly FlowSummary[] {
  let left = number;
  const rows = items
    .toSorted((a, b) => b.connections - a.connections)
    .map((item): FlowSummary => {
      const less = item.verdict === 'allowed' ? Math.min(item.connections, left) : 0;
      left -= less;
      return { ...item, connections: item.connections - less };
    });
  return rows.filter(({ connections, bytes }) => connections > 0 || bytes !== undefined);
}

const total = (items: readonly FlowSummary[]): number => items.reduce((sum, { connections }) => sum + connections, 0);

/** Adds up rows that differ in the node alone: a workload has pods on several nodes. */
function summedBy(items: readonly FlowSummary[]): readonly FlowSummary[] {
  const sums = new Map<string, FlowSummary>();
  for (const { reporter: _, ...item } of items) {
    const key = JSON.stringify([item.service, item.verdict, item.rule]);
    const known = sums.get(key);
    sums.set(key, known ? added(known, item) : item);
  }
  return [...sums.values()];
}

function added(one: FlowSummary, other: FlowSummary): FlowSummary {
  const bytes =
    one.bytes === undefined && other.bytes === undefined ? {} : { bytes: String(BigInt(one.bytes ?? 0) + BigInt(other.bytes ?? 0)) };
  return { ...one, connections: one.connections + other.connections, ...bytes };
}
