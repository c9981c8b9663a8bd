import type { FamilyTrace, TracedConnection, TraceHop, TracePath } from '../../api/trace.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { isOwn, isSentByKernel, type KernelTranslation, kernelHop, pathByKernel } from './kernel-paths.ts';
import type { TracedEnds } from './trace-ends.ts';
import { packetOf, tracedPacket } from './trace-packet.ts';
import { type TraceNode, tracePaths } from './trace-paths.ts';
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
  const path = pathInKernel(node, question, ends, { environment, isTranslated: atBridge !== ends });
  const opening = packetFor(false, atBridge);
  const packet = question.isEstablished ? packetFor(true, atBridge) : opening;
  const traced = path
    ? { paths: [path(shown)], moreEndpoints: 0 }
    : await tracePaths(node, packet, question.isEstablished ? { established: opening } : {});
  const ofConnection = traced.paths.filter(({ endpoints }) => known.endpoint !== undefined && endpoints.includes(known.endpoint));
  const isOfEndpoint = ofConnection.length > 0;
  const isByKernel = ({ bridge, desired }: TracePath): boolean =>
    [bridge, desired].every(({ drop }) => isSentByKernel(question.from, drop?.name, atBridge.destination, environment));
  const paths = (isOfEndpoint ? ofConnection.map((each) => onlyTo(each, known.endpoint)) : traced.paths).map((each) =>
    isByKernel(each) ? pathByKernel(shown, undefined) : { ...each, hops: [...translationHops(ends, atBridge), ...each.hops] },
  );
  return {
    family: ends.source.family,
    packet: shown,
    from: question.from.name,
    to: question.to.name,
    ...(ends.way !== undefined && { way: ends.way }),
    connection: question.isEstablished ? 'established' : 'new',
    ...(question.isEstablished && {
      known: isOfEndpoint || known.endpoint === undefined ? known : withoutEndpoint(known, traced.moreEndpoints),
    }),
    paths,
    moreEndpoints: isOfEndpoint ? 0 : traced.moreEndpoints,
    milliseconds: 0,
  };
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

/** Returns the path of a packet that the kernel of the node does not give to the bridge; undefined for all others. */
function pathInKernel(
  node: TraceNode,
  { from, protocol }: TraceQuestion,
  { source, destination, port }: TracedEnds,
  { environment, isTranslated }: { readonly environment: NodeEnvironment; readonly isTranslated: boolean },
): ((packet: FamilyTrace['packet']) => TracePath) | undefined {
  if (isTranslated || from.kind === 'pod' || from.kind === 'tunnel') return undefined;
  if (isOwn(destination, environment)) return (packet) => pathByKernel(packet, undefined, 'receives the packet');
  if (from.kind !== 'node') return undefined;
  const ports = protocol === 'icmp' || port === undefined ? {} : { transport: protocol, port };
  const onward = node.onward({ source, destination, ...ports });
  return onward && ((packet) => pathByKernel(packet, onward));
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
