import type { FamilyTrace, TracedConnection, TracedPacket, TraceHop, TracePath } from '../../api/trace.ts';
import { parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { isOwn, isSentByKernel, type KernelTranslation, kernelHop, pathByKernel, unservedPath } from './kernel-paths.ts';
import type { TracedEnds } from './trace-ends.ts';
import { packetOf, tracedPacket } from './trace-packet.ts';
import { type TracedPaths, type TraceNode, tracePaths } from './trace-paths.ts';
import type { TraceQuestion } from './trace-question.ts';

interface TracedPlace {
  readonly environment: NodeEnvironment;
  readonly leases: readonly Lease[];
  readonly translated: KernelTranslation;
  /** Connection of a later packet, as the node knows it. */
  readonly known?: TracedConnection;
}

const assumed: TracedConnection = { from: 'assumption' };

/** Traces one packet of a question. The time is left to the caller, which has a clock. */
export async function familyTrace(
  node: TraceNode,
  asked: TraceQuestion,
  ends: TracedEnds,
  { environment, leases, translated, known = assumed }: TracedPlace,
): Promise<FamilyTrace> {
  const question = known.sourcePort === undefined ? asked : { ...asked, sourcePort: known.sourcePort };
  const atBridge = endsAtBridge(question, ends, translated);
  const packetFor = (isEstablished: boolean, { source, destination, port }: TracedEnds) =>
    packetOf({ ...withPort(question, port), isEstablished }, { source, destination }, environment, leases);
  const shown = tracedPacket(PacketState.of(packetFor(question.isEstablished, ends)));
  const policyFor = (leaving: TracedPacket) => node.policyFor?.(shown, leaving);
  const path = pathInKernel(node, question, ends, { environment, isTranslated: atBridge !== ends });
  const opening = packetFor(false, atBridge);
  const packet = question.isEstablished ? packetFor(true, atBridge) : opening;
  const traced: TracedPaths = path
    ? { paths: [withPolicy(path(shown), policyFor)], moreEndpoints: 0 }
    : await tracePaths(node, packet, {
        ...(question.isEstablished && { established: opening }),
        ...(!question.hasSourcePort && known.sourcePort === undefined && { anySourcePort: true }),
        policyFor,
      });
  const ofConnection = traced.paths.filter(({ endpoints }) => known.endpoint !== undefined && endpoints.includes(known.endpoint));
  const shownPath = (each: TracePath): TracePath =>
    isPastBridge(question, each, atBridge, environment)
      ? withPolicy(pathByKernel(shown, undefined, doesWith(question)), policyFor)
      : { ...each, hops: [...translationHops(ends, atBridge), ...each.hops] };
  const paths = (ofConnection.length > 0 ? ofConnection.map((each) => onlyTo(each, known.endpoint)) : traced.paths).map(shownPath);
  return {
    family: ends.source.family,
    packet: shown,
    from: question.from.name,
    to: question.to.name,
    ...(ends.way !== undefined && { way: ends.way }),
    connection: question.isEstablished ? 'established' : 'new',
    ...shownEndpoints(question, known, traced, ofConnection.length > 0),
    paths,
    milliseconds: 0,
  };
}

/** Reports whether the kernel of the node sends a packet itself that the bridge would drop. */
function isPastBridge(
  { from }: TraceQuestion,
  { bridge, desired }: TracePath,
  { destination }: TracedEnds,
  environment: NodeEnvironment,
): boolean {
  return [bridge, desired].every(({ drop }) => isSentByKernel(from, drop?.name, destination, environment));
}

/** @param isOfEndpoint true if only the path to the endpoint of a known connection is shown */
function shownEndpoints(
  { isEstablished }: TraceQuestion,
  known: TracedConnection,
  { moreEndpoints, choice }: TracedPaths,
  isOfEndpoint: boolean,
): Pick<FamilyTrace, 'known' | 'moreEndpoints' | 'choice'> {
  const isKnown = isOfEndpoint || known.endpoint === undefined;
  return {
    ...(isEstablished && { known: isKnown ? known : withoutEndpoint(known, moreEndpoints) }),
    moreEndpoints: isOfEndpoint ? 0 : moreEndpoints,
    ...(choice && !isOfEndpoint && { choice }),
  };
}

function withPolicy(path: TracePath, policyFor: (leaving: TracedPacket) => TracePath['policy']): TracePath {
  const policy = policyFor(path.bridge.packet);
  return policy ? { ...path, policy } : path;
}

/** Returns the ends as the packet has them when it enters the bridge: the kernel translates node ports of all but the bridge's own packets. */
export function endsAtBridge({ from, protocol }: TraceQuestion, ends: TracedEnds, translated: KernelTranslation): TracedEnds {
  const { destination, port } = ends;
  if (port === undefined || protocol === 'icmp' || from.kind === 'pod' || from.kind === 'tunnel') return ends;
  const instead = translated(destination, protocol, port);
  return instead ? { ...ends, destination: instead.ip, port: instead.port } : ends;
}

export function withPort({ port: _, ...question }: TraceQuestion, port: number | undefined): TraceQuestion {
  return { ...question, ...(port !== undefined && { port }) };
}

function doesWith({ from }: Pick<TraceQuestion, 'from'>): string {
  return from.kind === 'outside' ? 'forwards the packet' : 'sends the packet';
}

/** Returns the path of a packet that the kernel of the node does not give to the bridge; undefined for all others. */
function pathInKernel(
  node: TraceNode,
  { from, to, protocol }: TraceQuestion,
  { source, destination, port, way }: TracedEnds,
  { environment, isTranslated }: { readonly environment: NodeEnvironment; readonly isTranslated: boolean },
): ((packet: FamilyTrace['packet']) => TracePath) | undefined {
  const { family } = destination;
  const isUnserved = way !== undefined && to.service && !to.service.clusterIps.some((ip) => parseIp(ip).family === family);
  if (isUnserved) return (packet) => unservedPath(packet, to.name.replace(/^service:/, 'Service '), family);
  if (isTranslated || from.kind === 'pod' || from.kind === 'tunnel') return undefined;
  if (isOwn(destination, environment)) return (packet) => pathByKernel(packet, undefined, 'receives the packet');
  if (from.kind === 'direct') return undefined;
  const ports = protocol === 'icmp' || port === undefined ? {} : { transport: protocol, port };
  const onward = node.onward({ source, destination, ...ports, isBeforeBridge: true });
  return onward && ((packet) => pathByKernel(packet, onward, doesWith({ from })));
}

function translationHops(sent: TracedEnds, atBridge: TracedEnds): readonly TraceHop[] {
  if (sent === atBridge) return [];
  const [from, to] = [sent, atBridge].map(({ destination, port }) => `${destination.text} port ${port}`);
  return [kernelHop(`${from} is the Service's on this node: the destination becomes ${to}`)];
}

/** The connection has one endpoint, although others have the same path. */
function onlyTo(path: TracePath, endpoint: string | undefined): TracePath {
  return endpoint === undefined ? path : { ...path, endpoints: [endpoint] };
}

function withoutEndpoint(known: TracedConnection, moreEndpoints: number): TracedConnection {
  const { endpoint } = known;
  const why =
    moreEndpoints > 0
      ? `its endpoint ${endpoint} is not among those that were traced`
      : `new connections do not get its endpoint ${endpoint}`;
  return { ...known, note: `${why}: the path is that of a new one` };
}
