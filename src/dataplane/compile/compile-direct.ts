import { type Cidr, type Family, hostCidr, type Ip } from '../../base/net/ip.ts';
import type { WantedRoute } from '../desired/host-entries.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority } from '../pipeline/flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import { serviceNextHop, virtualMac, zones } from '../pipeline/well-known.ts';
import { shownCommit } from './compile-commit.ts';
import { probesOfDrop } from './compile-probes.ts';
import { externalSource, familiesOf, type NodeEnvironment, ownCidrs } from './environment.ts';

/**
 * Path to the pods of another node without a tunnel: the bridge passes packets to the gateway, and the kernel routes them to the node.
 * Without `hop`, the network between the nodes routes pods' addresses, and the node has no route of Seine's to them.
 */
export interface DirectPath {
  /** `via` is absent where the interface itself knows the node, like one of WireGuard. */
  readonly hop?: { readonly via?: Ip; readonly dev: string };
}

/**
 * Compiles the flows that send packets for a network of another node to the gateway. A packet that comes from there is dropped unless it is
 * for a Service: the kernel's route is missing, and the two would exchange it until its TTL ends. Other nodes do not send to each other
 * through this one.
 *
 * Connections of the node's processes to Services that began in the tunnel have a source address of this node, which the kernel does not
 * accept from the bridge. They stay in the tunnel.
 */
export function toDirectPeer(cidr: Cidr, environment: NodeEnvironment): readonly Flow[] {
  const { gateway } = environment;
  const flow = (level: number, match: Match, ...steps: readonly Step[]): Flow => ({
    table: 'route',
    priority: level,
    match: { payload: cidr.family, ipDst: cidr, ...match },
    steps,
  });
  const [toGateway, toTunnel] = [load(reg.destination('gateway')), load(reg.destination('tunnel'))];
  const routed = load(reg.routed('yes'));
  const direct: readonly Step[] = [{ do: 'setEthDst', mac: gateway.mac }, toGateway, load(reg.direct('yes')), routed, goto('ttl')];
  const regs = [reg.source('gateway')];
  const fromTunnel = flow(priority.aboveHighest, { regs: [reg.source('tunnel')] }, ...drop);
  const begun: Match = { ctState: { new: '-', rpl: '-', trk: '+' }, ctMarks: [ctMark.service('yes'), ctMark.snat('no')], regs };
  return [
    flow(priority.highest, {}, ...direct),
    flow(priority.aboveHighest, { ctMarks: [ctMark.service('no')], regs }, ...drop),
    fromTunnel,
    probesOfDrop(fromTunnel, 'route.directPeer'),
    flow(priority.aboveHighest, begun, { do: 'setEthDst', mac: virtualMac }, toTunnel, routed, goto('ttl')),
    // Pods that came through a node port of this node: the kernel accepts their address from the bridge.
    ...ofFamily(ownCidrs(environment), cidr.family).map((ipSrc) =>
      flow(priority.override, { ...begun, ipSrc, ctMarks: [...(begun.ctMarks ?? []), ctMark.source('gateway')] }, ...direct),
    ),
    ...ofFamily(gateway.addresses, cidr.family).map((ipSrc) =>
      flow(priority.guard, { ...begun, ipSrc }, { do: 'setEthDst', mac: virtualMac }, toTunnel, routed, goto('ttl')),
    ),
  ];
}

/**
 * Compiles the flows for direct packets that do not depend on the peer. A node accepts them from every peer that may send them, whatever
 * way it sends itself: two nodes change their modes independently. None if the node exchanges all packets through the tunnel.
 *
 * - A connection from the gateway to an endpoint on another node gets the pod network's own address as its source, and in the tunnel those
 *   of the node's processes too, unlike in `encap`. Replies to it come from the gateway or from the tunnel; the kernel would deliver direct
 *   ones to the gateway's address without the bridge, which translates them.
 * - A peer may tunnel a reply to a packet that a process of this node sent directly, and a process of this node may reply through the tunnel
 *   to a packet that arrived directly: connection tracking of the bridge does not know such connections.
 */
export function directPaths(environment: NodeEnvironment): readonly Flow[] {
  const { gateway } = environment;
  if (!hasDirectPaths(environment)) return [];
  return familiesOf(environment).flatMap((payload): readonly Flow[] => [
    ...sourceTranslation(payload, environment),
    ...returned(payload, environment),
    ...gateway.addresses.filter(({ family }) => family === payload).flatMap((address) => untrackedReplies(payload, address)),
  ]);
}

/** Flows that send packets of the gateway back to it: to an endpoint on another node, and replies of one to the client. */
function returned(payload: Family, { gateway, tunnel }: NodeEnvironment): readonly Flow[] {
  const flow = (direct: 'yes' | 'no', ctMarks?: Match['ctMarks']): Flow => ({
    table: 'output',
    priority: priority.above,
    match: { payload, ...(ctMarks && { ctMarks }), regs: [reg.source('gateway'), reg.destination('gateway'), reg.direct(direct)] },
    steps: [{ do: 'outputInPort' }],
  });
  const ofService = [ctMark.service('yes'), ctMark.hairpin('no')];
  return [
    // An opening packet has no mark any more after its commit. Table `route` drops all that are for no Service.
    flow('yes'),
    flow('no', [...ofService, ctMark.snat('yes')]),
    // Replies to a pod that came through a node port of this node: the peer may send directly what this node sends through the tunnel.
    ...[gateway, tunnel].map(({ ofPort }) =>
      flow('no', [...ofService, ctMark.snat('no'), ctMark.source('gateway'), ctMark.receiver(ofPort)]),
    ),
  ];
}

function ofFamily<T extends { readonly family: Family }>(all: readonly T[], family: Family): readonly T[] {
  return all.filter((each) => each.family === family);
}

/** Reports whether packets of other nodes' pods may arrive at the gateway. */
function hasDirectPaths({ directPackets, wireGuard }: NodeEnvironment): boolean {
  return directPackets === true || wireGuard !== undefined;
}

/**
 * Replies between processes of this node and a peer, of which the bridge of one node has not seen the requests. Above the flow that drops
 * what is invalid and of no known connection (`compile-half-open.ts`): without the SYN, a SYN-ACK is.
 */
function untrackedReplies(payload: Family, gateway: Ip): readonly Flow[] {
  const flow = (match: Match): Flow => ({
    table: 'state',
    priority: priority.aboveOverride,
    match: { payload, ctState: { inv: '+', trk: '+' }, ctMarks: [ctMark.source(0)], ...match },
    steps: [load(reg.verdict('standing')), goto('egressEntry')],
  });
  return [flow({ ipDst: gateway, regs: [reg.source('tunnel')] }), flow({ ipSrc: gateway, regs: [reg.source('gateway')] })];
}

function sourceTranslation(payload: Family, environment: NodeEnvironment): readonly Flow[] {
  const { main, snat } = zones[payload];
  const { gateway, tunnel } = environment;
  const marked = (ofPort: number): readonly Step[] => {
    const marks = [ctMark.snat('yes'), ctMark.receiver(ofPort), ctMark.unadmitted('no')];
    return shownCommit({ zone: main, next: 'snat', exec: marks.map((mark) => ({ do: 'mark', mark })) });
  };
  const flow = (level: number, ipSrc: Match['ipSrc'], to: Mark, steps: readonly Step[]): Flow => ({
    table: 'snatMark',
    priority: level,
    match: {
      payload,
      ...(ipSrc && { ipSrc }),
      ctState: { new: '+', trk: '+' },
      ctMarks: [ctMark.service('yes'), ctMark.snat('no')],
      regs: [reg.source('gateway'), to],
    },
    steps,
  });
  const direct = reg.direct('yes');
  return [
    flow(priority.above, undefined, direct, marked(gateway.ofPort)),
    // By the address: a second opening packet is of a known connection, and does not pass the tables that tell pods apart.
    ...ofFamily(ownCidrs(environment), payload).map((cidr) => flow(priority.high, cidr, direct, [goto('snat')])),
    ...ofFamily(gateway.addresses, payload).flatMap((ip) => [
      flow(priority.aboveHigh, ip, direct, marked(gateway.ofPort)),
      flow(priority.aboveHigh, ip, reg.destination('tunnel'), marked(tunnel.ofPort)),
    ]),
    ...ownCidrs(environment)
      .filter(({ family }) => family === payload)
      .map(
        (cidr): Flow => ({
          table: 'unSnat',
          priority: priority.normal,
          match: { payload, ipDst: externalSource(cidr), regs: [reg.source('gateway')] },
          steps: [{ do: 'ct', zone: snat, commit: false, next: 'track', nat: { kind: 'restore' }, exec: [] }],
        }),
      ),
  ];
}

/** Compiles the node's route to a network of another node; none if the network between the nodes has it. */
export function directRoute(destination: Cidr, { hop }: DirectPath, { gateway }: NodeEnvironment): readonly WantedRoute[] {
  if (!hop) return [];
  // Peers and policies know the node's processes by this address.
  const src = gateway.addresses.find(({ family }) => family === destination.family);
  return [{ destination, ...hop, ...(src ? { src } : {}), exclusive: true }];
}

/** Compiles the routes by which replies to the pod networks' own addresses reach the bridge, which translates them. */
export function repliesToBridge(environment: NodeEnvironment): readonly WantedRoute[] {
  if (!hasDirectPaths(environment)) return [];
  return ownCidrs(environment).map((cidr) => ({
    destination: hostCidr(externalSource(cidr)),
    via: serviceNextHop[cidr.family],
    dev: environment.gateway.name,
  }));
}
