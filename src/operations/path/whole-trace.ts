import type { ConnectionPolicyView } from '../../api/policy.ts';
import type { FamilyTrace, NodeTrace, PodAttempt, ProbeEnd, TracedPacket, TracePath } from '../../api/trace.ts';

/** Question for one node, as the query of `/v1/trace`. */
export interface NodeQuestion {
  readonly from: string;
  readonly to: string;
  readonly port?: string;
  readonly family?: string;
  readonly 'source-port'?: string;
  readonly established?: 'true';
  /** Size of a probe. */
  readonly size?: 'full';
}

/** Answer of a node, or the reason why there is none. */
export type TraceAnswer = { readonly answer: NodeTrace } | { readonly failure: string };

/** Part of a path on one node. */
interface TraceSegment extends Pick<TracePath, 'hops' | 'bridge' | 'desired' | 'difference' | 'policy'>, Pick<FamilyTrace, 'known'> {
  readonly node: string;
  readonly milliseconds: number;
}

export type TraceVerdict = 'allowed' | 'denied' | 'unknown';

/** TraceVerdict of the objects in the API server about a path. */
export interface PathMeaning {
  readonly verdict: TraceVerdict;
  readonly why: string;
}

/** Way of a packet over all nodes that it passes. */
export interface WholePath {
  readonly verdict: TraceVerdict;
  readonly endpoints: readonly string[];
  readonly segments: readonly TraceSegment[];
  readonly desired: TraceVerdict;
  readonly bridge: TraceVerdict;
  /** Node whose part is missing, and the reason. */
  readonly missing?: { readonly node: string; readonly reason: string };
}

/** Fate of a packet of the sender. */
export interface ProbeResult {
  /** `lost`: it did not end at a place that the agents know. */
  readonly verdict: TraceVerdict | 'lost';
  readonly packet: TracedPacket;
  readonly ends: readonly { readonly node: string; readonly end: ProbeEnd }[];
  /** Where it was lost, or why its end is unknown. */
  readonly reason?: string;
  readonly notes: readonly string[];
  /** True if no probe was sent on the first node; the notes have the reason. */
  readonly unsent?: true;
}

/** Time of a trace of the past. */
export interface TraceTime {
  /** Time that was asked for (RFC 3339). */
  readonly asked: string;
  /** Nodes with the time of the record whose inputs were used. */
  readonly records: readonly { readonly node: string; readonly recorded: string }[];
}

export interface WholeTrace extends Pick<FamilyTrace, 'family' | 'from' | 'to' | 'packet' | 'connection' | 'moreEndpoints'> {
  readonly node: string;
  readonly paths: readonly WholePath[];
  /** With `--at`: only the verdict *desired* is known. */
  readonly at?: TraceTime;
  /** With `--probe`. */
  readonly probe?: ProbeResult;
  /** With `--connect`; a text is the reason why there is no result. */
  readonly connect?: PodAttempt | string;
}

/** Nodes that a packet may pass; more are a loop. */
const NODES_MAX = 8;

/**
 * Traces a packet from one node to the next, as far as nodes answer.
 *
 * @param first answer of the first node
 */
export async function followTrace(
  first: NodeTrace,
  ask: (node: string, question: NodeQuestion) => Promise<TraceAnswer>,
): Promise<readonly WholeTrace[]> {
  const followed: WholeTrace[] = [];
  // One after another: an agent reads its bridge for one trace at a time.
  for (const { paths, ...trace } of first.traces) {
    const wholes: WholePath[] = [];
    for (const path of paths) wholes.push(await followPath(first.node, trace, path, ask));
    followed.push({ ...trace, node: first.node, paths: wholes });
  }
  return followed;
}

async function followPath(
  firstNode: string,
  trace: Omit<FamilyTrace, 'paths'>,
  firstPath: TracePath,
  ask: (node: string, question: NodeQuestion) => Promise<TraceAnswer>,
): Promise<WholePath> {
  const { family, connection } = trace;
  const segments: TraceSegment[] = [segmentOf(firstNode, firstPath, trace)];
  for (let last = segments[0], node = nextNode(last); last && node !== undefined; last = segments.at(-1), node = nextNode(last)) {
    if (segments.length >= NODES_MAX) return whole(firstPath, segments, { node, reason: `more than ${NODES_MAX} nodes: a loop` });
    const question = onwards(last, family, connection);
    const answer = await ask(node, question);
    if ('failure' in answer) return whole(firstPath, segments, { node, reason: answer.failure });
    const [next] = answer.answer.traces;
    const path = next?.paths[0];
    if (!next || !path) return whole(firstPath, segments, { node, reason: 'its answer has no path' });
    segments.push(segmentOf(node, path, next));
  }
  return whole(firstPath, segments);
}

/** Returns the node that gets the packet from the last one. */
function nextNode(last: TraceSegment | undefined): string | undefined {
  if (!last) return undefined;
  const { what, to, onward } = last.bridge;
  if (what === 'tunnel') return to;
  return onward?.mode === 'blocked' ? undefined : onward?.node;
}

function onwards({ node, bridge: { what, packet } }: TraceSegment, family: string, connection: string): NodeQuestion {
  const { source, sourcePort, destination, destinationPort, protocol } = packet;
  return {
    from: `${what === 'tunnel' ? 'tunnel' : 'direct'}:${node}/${source}`,
    to: destination,
    family,
    port: destinationPort === undefined ? 'icmp' : `${destinationPort}/${protocol}`,
    ...(sourcePort !== undefined && { 'source-port': String(sourcePort) }),
    ...(connection === 'established' && { established: 'true' }),
  };
}

function segmentOf(
  node: string,
  { hops, bridge, desired, difference, policy }: TracePath,
  { milliseconds, known }: Pick<FamilyTrace, 'milliseconds' | 'known'>,
): TraceSegment {
  return {
    node,
    hops,
    bridge,
    desired,
    milliseconds,
    ...(known && { known }),
    ...(difference && { difference }),
    ...(policy && { policy }),
  };
}

function whole({ endpoints }: TracePath, segments: readonly TraceSegment[], missing?: WholePath['missing']): WholePath {
  const [bridge, desired] = [verdictOf(segments, 'bridge'), verdictOf(segments, 'desired')];
  return { verdict: bridge, endpoints, segments, bridge, desired, ...(missing && { missing }) };
}

/** Every node has to pass the packet on; the last one has to deliver it. */
function verdictOf(segments: readonly TraceSegment[], which: 'bridge' | 'desired'): TraceVerdict {
  const outcomes = segments.map((segment) => segment[which]);
  if (outcomes.some(({ what, onward }) => what === 'dropped' || what === 'answered' || onward?.mode === 'blocked')) return 'denied';
  const last = outcomes.at(-1);
  return last?.what === 'pod' || (last?.what === 'node' && !last.onward) ? 'allowed' : 'unknown';
}

/** Returns the ends of a connection that policies decide: of which a policy isolates the pod, or which is blocked. */
export function decidedEnds(policy: ConnectionPolicyView | undefined): ConnectionPolicyView['ends'] {
  return policy?.ends.filter(({ verdict, why }) => verdict === 'deny' || why === 'a rule allows it') ?? [];
}

/** Reports whether the installed flows and those that the agent wants have different results. */
export function differsInResult({ segments }: WholePath): boolean {
  return segments.some(({ bridge, desired }) => bridge.what !== desired.what || bridge.to !== desired.to);
}
