import type { ConnectionPolicyView } from '../../api/policy.ts';
import type { EndpointChoice, FamilyTrace, NodeTrace, PodAttempt, ProbeEnd, TracedPacket, TracePath } from '../../api/trace.ts';

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
  /** If the endpoints of the path have several verdicts, one that the flows do not have. */
  readonly verdict: TraceVerdict;
  readonly why: string;
  /** Endpoints that the client gets, and why those; for the first path of a packet to a Service. */
  readonly choice?: string;
  /** Endpoints that the client gets by the objects, and to which no flow sends the packet; with the first path. */
  readonly unchosen?: readonly string[];
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

/** Node that a packet from outside enters. */
export interface TraceEntry {
  readonly node: string;
  /** Sentence about the choice of the node, where it matters. */
  readonly reason?: string;
}

export interface WholeTrace
  extends Pick<FamilyTrace, 'family' | 'from' | 'to' | 'packet' | 'way' | 'connection' | 'moreEndpoints' | 'choice'> {
  readonly node: string;
  /** Sentence about the node that a packet from outside enters, where it matters. */
  readonly entry?: string;
  readonly paths: readonly WholePath[];
  /** With `--at`: only the verdict *desired* is known. */
  readonly at?: TraceTime;
  /** With `--probe`. */
  readonly probe?: ProbeResult;
  /** With `--connect`; a text is the reason why there is no result. */
  readonly connect?: PodAttempt | string;
}

/** Endpoints of a Service on other nodes that are followed there, wherever they are chosen: each is a question to its node. */
const FOLLOWED_MAX = 16;
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
    const further: FollowedPacket['further'] = { endpoints: 0, left: FOLLOWED_MAX };
    for (const path of paths) {
      const begun = { endpoints: path.endpoints, segments: [segmentOf(first.node, path, trace)] };
      if (mayFollow(begun, further)) wholes.push(...(await followPath(begun, { ...trace, ask, further })));
    }
    const choice = trace.choice ?? further.choice;
    const moreEndpoints = trace.moreEndpoints + further.endpoints;
    followed.push({ ...trace, node: first.node, paths: merged(wholes), moreEndpoints, ...(choice && { choice }) });
  }
  return followed;
}

/** Takes one of the questions that are left; a path for which there is none is counted. */
function mayFollow({ endpoints, segments }: BegunPath, further: FollowedPacket['further']): boolean {
  if (nextNode(segments.at(-1)) === undefined || further.left-- > 0) return true;
  further.endpoints += Math.max(1, endpoints.length);
  return false;
}

/** Merges paths of endpoints that are treated alike on every node. */
function merged(paths: readonly WholePath[]): readonly WholePath[] {
  const byKey = new Map<string, WholePath>();
  for (const path of paths) {
    const key = JSON.stringify([
      path.desired,
      path.missing,
      path.segments.map(({ node, hops, bridge, desired, difference, policy }) => [
        ...[node, hops.map(({ table }) => table), bridge.what, bridge.drop?.name, desired.what, desired.drop?.name, difference],
        bridge.to === desired.to,
        ...[bridge.what === 'tunnel' ? bridge.to : '', bridge.onward, decidedEnds(policy).map(({ verdict, by }) => [verdict, by])],
      ]),
    ]);
    const known = byKey.get(key);
    byKey.set(key, known ? { ...known, endpoints: [...new Set([...known.endpoints, ...path.endpoints])] } : path);
  }
  return [...byKey.values()];
}

/** Adds the sentence about the node that the packet enters. */
export function withEntry(traces: readonly WholeTrace[], entry: TraceEntry | undefined): readonly WholeTrace[] {
  return entry?.reason === undefined ? traces : traces.map((trace) => ({ ...trace, entry: entry.reason ?? '' }));
}

interface FollowedPacket extends Pick<FamilyTrace, 'family' | 'connection'> {
  readonly ask: (node: string, question: NodeQuestion) => Promise<TraceAnswer>;
  /** Number of endpoints that other nodes did not trace, and of those that may still be followed; the choice that another node makes. */
  readonly further: { endpoints: number; left: number; choice?: EndpointChoice };
}

/** Path so far. */
type BegunPath = Pick<WholePath, 'endpoints' | 'segments'>;

/** @returns several paths where the next node chooses an endpoint */
async function followPath(begun: BegunPath, packet: FollowedPacket): Promise<readonly WholePath[]> {
  const { endpoints, segments } = begun;
  const last = segments.at(-1);
  const node = nextNode(last);
  if (!last || node === undefined) return [whole(begun)];
  if (segments.length >= NODES_MAX || isLoop(segments, node, last))
    return [whole(begun, { node, reason: 'it passes the same node again and again: a loop' })];
  const answer = await packet.ask(node, onwards(last, packet.family, packet.connection));
  if ('failure' in answer) return [whole(begun, { node, reason: answer.failure })];
  const [next] = answer.answer.traces;
  if (!next || next.paths.length === 0) return [whole(begun, { node, reason: 'its answer has no path' })];
  packet.further.endpoints += next.moreEndpoints;
  if (next.choice) packet.further.choice = next.choice;
  const paths: WholePath[] = [];
  for (const [at, path] of next.paths.entries()) {
    // Those of the Service that was asked for: a further Service may have the address of an endpoint.
    const chosen = endpoints.length > 0 ? endpoints : path.endpoints;
    const longer = { endpoints: chosen, segments: [...segments, segmentOf(node, path, next)] };
    if (at === 0 || mayFollow(longer, packet.further)) paths.push(...(await followPath(longer, packet)));
  }
  return paths;
}

/** Reports whether the kernel of a node would return a packet to its bridge for the second time. */
function isLoop(segments: readonly TraceSegment[], node: string, last: TraceSegment): boolean {
  return (
    last.bridge.onward?.mode === 'service' &&
    segments.filter((each) => each.node === node && each.bridge.onward?.mode === 'service').length > 1
  );
}

/** Returns the node that gets the packet from the last one. */
function nextNode(last: TraceSegment | undefined): string | undefined {
  if (!last) return undefined;
  const { what, to, onward } = last.bridge;
  if (what === 'tunnel') return to;
  return onward?.mode === 'blocked' ? undefined : onward?.node;
}

function onwards({ node, bridge: { what, packet, onward } }: TraceSegment, family: string, connection: string): NodeQuestion {
  const { sourcePort, destination, destinationPort, protocol } = packet;
  return {
    from: `${what === 'tunnel' ? 'tunnel' : 'direct'}:${node}/${onward?.source ?? packet.source}`,
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

function whole({ endpoints, segments }: BegunPath, missing?: WholePath['missing']): WholePath {
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
