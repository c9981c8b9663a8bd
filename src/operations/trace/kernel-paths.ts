import type { TraceDrop, TracedPacket, TraceHop, TraceOnward, TraceOutcome, TracePath } from '../../api/trace.ts';
import { cidrContains, type Family, type Ip } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { serviceNextHop, wireGuardDevice } from '../../dataplane/pipeline/well-known.ts';

type ReachedPeer = Pick<PeerIntent, 'name' | 'podCidrs' | 'direct' | 'transport'>;

/** Other nodes, as this one reaches them. */
export interface ReachedPeers {
  intents(): Iterable<ReachedPeer>;
  modesOf(name: string): readonly { readonly family: string; readonly mode: string }[];
}

/**
 * Returns the destination that the node's nftables rules give to a packet before the bridge has it: that of a node port, or of an address of
 * the node that a Service has. Undefined: they do not change it.
 */
export type KernelTranslation = (
  destination: Ip,
  transport: 'tcp' | 'udp' | 'sctp',
  port: number,
) => { readonly ip: Ip; readonly port: number } | undefined;

/** This node, as its kernel forwards packets. */
interface OwnKernel {
  readonly node: string;
  readonly environment: Pick<NodeEnvironment, 'transport' | 'localAddresses' | 'podCidrs'>;
  readonly translated: KernelTranslation;
}

/** Packet that the kernel of the node gets. */
export interface KernelPacket {
  readonly source: Ip;
  readonly destination: Ip;
  /** Absent for a protocol without ports. */
  readonly transport?: 'tcp' | 'udp' | 'sctp';
  readonly port?: number;
  /** The packet has not been on the bridge: a process of the node sends it, or it arrives from outside. */
  readonly isBeforeBridge?: true;
}

/**
 * Returns a function that returns where the kernel sends a packet on: for pods of another node that are reached without the tunnel, for a
 * node port of another node, or back to the bridge for one of this node. Undefined for all others.
 *
 * Packets for another node's address that have not been on the bridge go there, whatever Service has the address: `ServiceHost` has no route
 * to the bridge for such addresses.
 */
export function kernelPaths(peers: ReachedPeers, own: OwnKernel): (packet: KernelPacket) => TraceOnward | undefined {
  let known: readonly ReachedPeer[] | undefined;
  return (packet) => {
    known ??= [...peers.intents()];
    if (packet.isBeforeBridge) return directPath(packet, known, peers) ?? toPeerAddress(packet, known, own);
    return directPath(packet, known, peers) ?? nodePortPath(packet, known, own);
  };
}

function directPath(
  { destination }: KernelPacket,
  intents: Iterable<Pick<PeerIntent, 'name' | 'podCidrs' | 'direct'>>,
  peers: Pick<ReachedPeers, 'modesOf'>,
): TraceOnward | undefined {
  const { family } = destination;
  for (const { name, podCidrs, direct } of intents) {
    const path = direct?.[family];
    if (!path || !podCidrs.some((network) => cidrContains(network, destination))) continue;
    const device = path.hop?.dev;
    const isBlocked = peers.modesOf(name).some((each) => each.family === family && each.mode === 'blocked');
    const mode = device === wireGuardDevice ? 'wireguard' : 'direct';
    return { node: name, mode: isBlocked ? 'blocked' : mode, ...(device !== undefined && { device }) };
  }
  return undefined;
}

function masqueraded({ transport }: Pick<NodeEnvironment, 'transport'>, family: Family): { readonly source?: string } {
  const own = transport.find((ip) => ip.family === family);
  return own ? { source: own.text } : {};
}

function nodePortPath(
  { source, destination, transport, port }: KernelPacket,
  intents: Iterable<Pick<PeerIntent, 'name' | 'transport'>>,
  { node, environment, translated }: OwnKernel,
): TraceOnward | undefined {
  if (transport === undefined || port === undefined) return undefined;
  const { family } = destination;
  if (isOwn(destination, environment)) {
    // The bridge has chosen a process of the node as the endpoint: the kernel does not translate the packet again.
    const isForProcess = source.text === serviceNextHop[family].text;
    return !isForProcess && translated(destination, transport, port) ? { node, mode: 'service' } : undefined;
  }
  const isServed = environment.transport.some((own) => own.family === family && translated(own, transport, port)?.port === port);
  if (!isServed) return undefined;
  return toPeerAddress({ source, destination }, intents, { environment });
}

function toPeerAddress(
  { source, destination }: KernelPacket,
  intents: Iterable<Pick<PeerIntent, 'name' | 'transport'>>,
  { environment }: Pick<OwnKernel, 'environment'>,
): TraceOnward | undefined {
  const peer = [...intents].find(({ transport }) => transport.some(({ text }) => text === destination.text));
  if (!peer) return undefined;
  // The address of the node replaces those of the gateway and of pods.
  const isFromHere = environment.podCidrs.some((network) => cidrContains(network, source));
  return { node: peer.name, mode: 'direct', ...(isFromHere && masqueraded(environment, destination.family)) };
}

/** Reports whether an address is the node's, and not the gateway's, which the bridge has. */
export function isOwn({ text }: Ip, { transport, localAddresses = [] }: Pick<NodeEnvironment, 'transport' | 'localAddresses'>): boolean {
  return [...transport, ...localAddresses].some((ip) => ip.text === text);
}

/**
 * Reports whether the kernel of the node sends a packet itself, of its own processes or of a host outside. It gives packets for pods and
 * Services to the bridge, which would drop others.
 *
 * @param drop name of the drop
 */
export function isSentByKernel(
  { kind }: { readonly kind: string },
  drop: string | undefined,
  destination: Ip,
  { podCidrs, serviceCidrs }: Pick<NodeEnvironment, 'podCidrs' | 'serviceCidrs'>,
): boolean {
  const ofBridge = [...podCidrs, ...serviceCidrs].some((network) => cidrContains(network, destination));
  return (kind === 'node' || kind === 'outside') && drop === 'route.none' && !ofBridge;
}

/** Returns the path of a packet that the kernel of the node keeps or sends itself: the bridge never has it. */
export function pathByKernel(packet: TracedPacket, onward: TraceOnward | undefined, does = 'sends the packet'): TracePath {
  const outcome: TraceOutcome = { what: 'node', to: 'the node', packet, ...(onward && { onward }) };
  const text = `${does} ${onward ? `to ${onward.node} ` : ''}itself: the bridge does not have it`;
  return { endpoints: [], hops: [kernelHop(text)], bridge: outcome, desired: outcome };
}

/** Returns the path of a packet for an address of a Service that no node serves: the Service has no cluster address of its family. */
export function unservedPath(packet: TracedPacket, service: string, family: Family): TracePath {
  const name = family === 'ipv4' ? 'IPv4' : 'IPv6';
  const drop: TraceDrop = {
    ...{ table: 'kernel', name: 'service.family', packets: null },
    message: `No node serves ${packet.destination}: ${service} has no ${name} cluster address`,
    cause: 'The address was added to a Service of one family; nodes treat it like any address outside',
    remedy: `Add the family to the Service (spec.ipFamilyPolicy, spec.ipFamilies), or use an address of its family`,
  };
  const outcome: TraceOutcome = { what: 'dropped', to: drop.name, packet, drop };
  return { endpoints: [], hops: [kernelHop(`${packet.destination} is not served`)], bridge: outcome, desired: outcome };
}

export function kernelHop(text: string): TraceHop {
  return { table: 'kernel', text, flow: null, owner: null };
}
