import { type Cidr, cidrAddress, type Family, type Ip } from '../../base/net/ip.ts';
import { nothing, type Wanted, type WantedRoute } from '../desired/host-entries.ts';
import { peerNumber, tunnelNumber } from '../pipeline/cookie.ts';
import { reg } from '../pipeline/fields.ts';
import type { Flow } from '../pipeline/flow.ts';
import { goto, load, priority } from '../pipeline/flow.ts';
import { blackholeMetric, loopback, serviceNextHop, virtualMac } from '../pipeline/well-known.ts';
import { type DirectPath, directRoute, toDirectPeer } from './compile-direct.ts';
import { errorsOfPeer } from './compile-errors.ts';
import { refusedFromPeer } from './compile-verdict.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/** Another node, as this node reaches it. */
export interface PeerIntent {
  readonly name: string;
  readonly podCidrs: readonly Cidr[];
  /** Its tunnel end points, in order of preference. */
  readonly transport: readonly Ip[];
  /** Those that another Node object also has: a host that has returned under another name has both for a while. */
  readonly sharedTransport?: readonly Ip[];
  /** Families in which this node sends to it without a tunnel. */
  readonly direct?: Readonly<Partial<Record<Family, DirectPath>>>;
  /** Present if it may send without a tunnel. */
  readonly maySendDirectly?: true;
  /** Present if its packets from the tunnel are dropped: they would not be encrypted. */
  readonly refusesTunnel?: true;
}

/**
 * Compiles the entries of this node that reach the pods of one other node. It accepts packets from the tunnel whatever way it sends itself.
 *
 * Keys are per CIDR and per transport address: a CIDR that moves to another node needs no order of changes, one plan moves it. A peer
 * without a transport address of a family that this node has is not reachable yet, and has no entries.
 */
export function compilePeer(peer: PeerIntent, environment: NodeEnvironment): Wanted {
  return { ...nothing, flows: compilePeerFlows(peer, environment), routes: compileDirectRoutes(peer, environment) };
}

/** Compiles the flows alone, see {@link compilePeer}. */
export function compilePeerFlows(peer: PeerIntent, environment: NodeEnvironment): readonly Flow[] {
  const ends = tunnelEnds(peer, environment);
  if (!ends) return [];
  const reached = reachedNetworks(peer, environment);
  const isDirect = peer.maySendDirectly === true || peer.direct !== undefined;
  return [
    ...(peer.refusesTunnel ? [] : fromPeer(peer, reached, environment)),
    ...reached.flatMap((cidr) => toPeer(cidr, ends, peer.direct?.[cidr.family] ? toDirectPeer(cidr, environment) : undefined)),
    ...(isDirect ? reached.flatMap((cidr) => refusedFromPeer(cidr, environment)) : []),
  ];
}

/** Compiles the routes to the peer without a tunnel alone, see {@link compilePeer}. */
export function compileDirectRoutes(peer: PeerIntent, environment: NodeEnvironment): readonly WantedRoute[] {
  return reachedNetworks(peer, environment).flatMap((cidr) => directRoute(cidr, peer.direct?.[cidr.family] ?? {}, environment));
}

/** Returns the pod networks of the peer to which this node sends through the tunnel. */
export function tunnelledNetworks(peer: PeerIntent, environment: NodeEnvironment): readonly Cidr[] {
  return reachedNetworks(peer, environment).filter(({ family }) => peer.direct?.[family] === undefined);
}

/** Returns the pod networks of the peer that this node can reach. */
export function reachedNetworks(peer: PeerIntent, environment: NodeEnvironment): readonly Cidr[] {
  if (!tunnelEnds(peer, environment)) return [];
  const families = familiesOf(environment);
  return peer.podCidrs.filter((cidr) => families.includes(cidr.family));
}

/**
 * Compiles the node's routes to the pods of all other nodes: through the gateway to one next hop, which the bridge ignores. So neighbouring
 * networks share a route. Open vSwitch reads all routes of the node again whenever any interface changes, which takes a quarter of a second
 * with a route for each of 5,000 nodes.
 *
 * @param networks union of all peers' networks
 */
export function compilePeerRoutes(networks: Iterable<Cidr>, { gateway }: NodeEnvironment): Wanted {
  const routes = Array.from(networks, (destination) => ({ destination, via: serviceNextHop[destination.family], dev: gateway.name }));
  return { ...nothing, routes };
}

/** Compiles the route that drops packets for a network while every other route to it is missing. */
export function compileBlackhole(destination: Cidr): WantedRoute {
  return { destination, kind: 'blackhole', dev: loopback, metric: blackholeMetric, exclusive: true };
}

/** Returns the address at which this node reaches the peer; undefined if they have no family in common. */
export function reachedEnd(peer: PeerIntent, environment: NodeEnvironment): Ip | undefined {
  return tunnelEnds(peer, environment)?.remote;
}

interface TunnelEnds {
  readonly local: Ip;
  readonly remote: Ip;
}

function tunnelEnds(peer: PeerIntent, { transport }: NodeEnvironment): TunnelEnds | undefined {
  for (const remote of peer.transport) {
    const local = transport.find((ip) => ip.family === remote.family);
    if (local) return { local, remote };
  }
  return undefined;
}

/**
 * Flows for packets from a peer. Any of a node's addresses may be the source of its tunnel packets. The inner source must be a pod of that
 * node or its gateway: a compromised node can send only as its own pods. A packet from an address that several nodes share may be from any
 * of them; all of them want the same flow for it.
 */
function fromPeer(peer: PeerIntent, networks: readonly Cidr[], { tunnel: { ofPort: inPort } }: NodeEnvironment): Flow[] {
  const { name, transport, sharedTransport = [] } = peer;
  const own = reg.peer(peerNumber(name));
  const shared = new Map(sharedTransport.map(({ text }) => [text, reg.peer(tunnelNumber(text))]));
  return [
    ...transport.map(
      (tunSrc): Flow => ({
        table: 'classify',
        priority: priority.normal,
        match: { inPort, tunSrc },
        steps: [load(reg.source('tunnel')), load(reg.routed('yes')), load(shared.get(tunSrc.text) ?? own), goto('spoofGuard')],
      }),
    ),
    ...[own, ...shared.values()].flatMap((sender) =>
      networks.flatMap((cidr): Flow[] => [
        {
          table: 'spoofGuard',
          priority: priority.normal,
          match: { inPort, payload: cidr.family, ipSrc: cidr, regs: [sender] },
          steps: [goto('unSnat')],
        },
        ...errorsOfPeer(inPort, cidr, sender),
      ]),
    ),
  ];
}

/** @param direct flows of table `route` for a peer that this node reaches without a tunnel; absent: those of the tunnel */
function toPeer(cidr: Cidr, { local, remote }: TunnelEnds, direct?: readonly Flow[]): Flow[] {
  const toCidr = { payload: cidr.family, ipDst: cidr };
  const byTunnel: Flow = {
    table: 'route',
    priority: priority.highest,
    match: toCidr,
    steps: [{ do: 'setEthDst', mac: virtualMac }, load(reg.destination('tunnel')), load(reg.routed('yes')), goto('ttl')],
  };
  const flows: Flow[] = [
    ...(direct ?? [byTunnel]),
    {
      table: 'tunnel',
      priority: priority.normal,
      match: { ...toCidr, regs: [reg.destination('tunnel')] },
      // Set here, not by the routing table: a node with several addresses must send from the one that its peers expect.
      steps: [{ do: 'setTunSrc', ip: local }, { do: 'setTunDst', ip: remote }, goto('output')],
    },
  ];
  return cidr.family === 'ipv4' ? [...flows, answerForGateway(cidr)] : flows;
}

/**
 * Flow that answers ARP for the peer's gateway address, the next hop of the node's routes, which no port of this bridge has. IPv6 has only
 * permanent neighbours.
 */
function answerForGateway(cidr: Cidr): Flow {
  const ip = cidrAddress(cidr, 1n);
  return {
    table: 'neighbour',
    priority: priority.normal,
    match: { payload: 'arp', arpOp: 'request', arpTpa: ip },
    steps: [{ do: 'answerArp', mac: virtualMac, ip }],
  };
}
