import type { FlowEnd, FlowView } from '../../api/flow-log.ts';

/** Maximum time between the records of one connection on its two nodes (ms): clocks differ. */
const SAME_MS = 2_000;
/** Maximum number of equal records that wait for the other end's. */
const waitingMax = 16;

/** Record, and all nodes that reported it. */
export type MergedFlow = FlowView & { readonly nodes: readonly string[] };

/**
 * Joins the records of one connection by its two nodes into one, with the decisions and names of both. Sorted by time. Pure.
 *
 * @param flows in any order; each node's numbers are distinct
 */
export function mergeFlows(flows: readonly FlowView[]): readonly MergedFlow[] {
  const sorted = flows.toSorted((a, b) => timeOf(a) - timeOf(b) || compareText(a.node, b.node) || a.number - b.number);
  const merged: MergedFlow[] = [];
  /** Places of records that still lack the other end's, by connection, the oldest first. */
  const halves = new Map<string, readonly number[]>();
  for (const flow of sorted) {
    const key = keyOf(flow);
    const waiting = halves.get(key) ?? [];
    const at = waiting.find((place) => isOtherHalf(merged[place], flow));
    const before = at === undefined ? undefined : merged[at];
    if (at !== undefined && before) {
      merged[at] = joined(before, flow);
      halves.set(
        key,
        waiting.filter((place) => place !== at),
      );
    } else {
      if (flow.reporter !== 'both') halves.set(key, [...waiting, merged.length].slice(-waitingMax));
      merged.push({ ...flow, nodes: [flow.node] });
    }
  }
  return merged;
}

/**
 * Divides new records into those to print now and those that wait for the record of the other end's node until the next round. A record
 * waits for one round at most. Pure.
 *
 * @param waiting records that have waited for a round
 */
export function dueFlows(
  waiting: readonly FlowView[],
  fresh: readonly FlowView[],
): { readonly due: readonly FlowView[]; readonly later: readonly FlowView[] } {
  const byKey = Map.groupBy([...waiting, ...fresh], keyOf);
  const isLater = (flow: FlowView): boolean =>
    flow.reporter !== 'both' &&
    inPodNetwork(flow.source) &&
    inPodNetwork(flow.destination) &&
    !byKey.get(keyOf(flow))?.some((other) => isOtherHalf(flow, other));
  return { due: [...waiting, ...fresh.filter((flow) => !isLater(flow))], later: fresh.filter(isLater) };
}

/** Reports whether an end may be a pod: a node may not know the name of another node's. */
function inPodNetwork({ kind }: FlowEnd): boolean {
  return kind === 'pod' || kind === 'unknown';
}

function timeOf({ time }: FlowView): number {
  return Date.parse(time);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A connection that the receiver's node denies was opened on that of its sender: both are one line. */
function keyOf({ event, protocol, source, destination }: FlowView): string {
  const end = ({ address, port }: FlowEnd): string => `${address} ${port ?? ''}`;
  return `${event === 'denied' || event === 'refused' ? 'opened' : event} ${protocol} ${end(source)} ${end(destination)}`;
}

function isOtherHalf(one: FlowView | undefined, other: FlowView): boolean {
  return (
    one !== undefined && one.node !== other.node && one.reporter !== other.reporter && Math.abs(timeOf(one) - timeOf(other)) <= SAME_MS
  );
}

function joined(one: MergedFlow, other: FlowView): MergedFlow {
  const [source, destination] = one.reporter === 'source' ? [one, other] : [other, one];
  const ended = source.verdict === 'allowed' ? destination : source;
  return {
    ...withoutCounters(destination),
    ...source,
    ...(source.bytes ? {} : countersOf(destination)),
    event: ended.event,
    verdict: ended.verdict,
    ...(ended.repeated !== undefined && { repeated: ended.repeated }),
    reporter: 'both',
    time: one.time,
    source: better(source.source, destination.source),
    destination: better(destination.destination, source.destination),
    ...(destination.ingress && { ingress: destination.ingress }),
    nodes: [source.node, destination.node],
  };
}

function withoutCounters({ packets: _, bytes: __, estimated: ___, ...rest }: FlowView): FlowView {
  return rest;
}

/** Counters of one node: those of the other may be exact, or an estimate. */
function countersOf({ packets, bytes, estimated }: FlowView): Partial<FlowView> {
  return { ...(packets && { packets }), ...(bytes && { bytes }), ...(estimated && { estimated }) };
}

/** Prefers the record of the end's own node, unless only the other one knows a name. */
function better(own: FlowEnd, other: FlowEnd): FlowEnd {
  return own.name === undefined && other.name !== undefined ? other : own;
}
