import fc from 'fast-check';
import { cidrAddress, type Family, type Ip, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { MatchProtocol } from '../../src/dataplane/pipeline/flow.ts';
import { nodePortAddress, serviceNextHop, virtualMac } from '../../src/dataplane/pipeline/well-known.ts';
import { echoReply, echoRequest, type Packet } from '../../src/dataplane/switch-model/packet.ts';
import type { Output } from '../../src/dataplane/switch-model/switch-model.ts';
import type { Scene } from './scene.ts';

/** A packet and its input port. */
export interface Arrival {
  readonly inPort: number;
  readonly packet: Packet;
  /** True if it arrives in one batch with the packet before it. */
  readonly inSameBatch?: true;
}

/** Parties and order of a conversation: `true` for a packet of the opening side, `false` for an answer to the last one. */
export interface Conversation {
  readonly opening: Arrival;
  readonly order: readonly boolean[];
  /** True if the opening side sends two packets at once, before there can be an answer. */
  readonly beginsTwice: boolean;
  /** Sender of an error about the last packet that arrived, if it is TCP or UDP: its receiver, a router or node there, or another. */
  readonly reportedBy: 'none' | 'receiver' | 'router' | number;
  /** Number of later connections of the same client to the same server. */
  readonly again: number;
}

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);

/** Conversations between all parties, and with unused addresses. */
export function conversations(scene: Scene): fc.Arbitrary<Conversation> {
  const families = scene.node.podCidrs.map(({ family }) => family);
  return fc
    .record({
      family: pick(...families),
      protocol: pick<ConversationProtocol>(
        ...(scene.node.tunnel.type === 'gre' ? ['gre' as const] : []),
        'tcp',
        'tcp',
        'udp',
        'udp',
        'icmp',
      ),
      from: fc.nat(),
      to: fc.nat(),
      hop: pick<'gateway' | 'receiver' | 'anybody'>('gateway', 'receiver', 'anybody'),
      // A client may choose the tunnel's port.
      portSrc: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1024, max: 60000 }) }, { weight: 1, arbitrary: pick(6081) }),
      portDst: pick(...interestingPorts(scene)),
      /** Destination is a Service's address, not just any. */
      service: fc.option(fc.nat()),
      ttl: pick(64, 64, 64, 64, 2, 1),
      order: fc.array(fc.boolean(), { minLength: 1, maxLength: 6 }),
      again: fc.integer({ min: 0, max: 2 }),
      beginsTwice: fc.boolean(),
      reportedBy: fc.oneof(pick<'none' | 'receiver' | 'router'>('none', 'receiver', 'router'), fc.nat()),
    })
    .map(({ family, protocol, from, to, hop, portSrc, portDst, service, ttl, order, again, beginsTwice, reportedBy }) => {
      const sources = openers(scene, family);
      const destinations = addresses(scene, family);
      const source = sources[from % sources.length] ?? fail();
      const asked = serviceTargets(scene).filter(({ ip }) => ip.family === family);
      const target = service === null ? undefined : asked[service % asked.length];
      const ipDst = target?.ip ?? destinations[to % destinations.length] ?? fail();
      const payload = transport(target?.protocol ?? protocol, family, portSrc, target?.port ?? portDst);
      const ethDst = source.kind === 'pod' ? nextHop(scene, hop, ipDst) : scene.node.gateway.mac;
      const packet = { ...source.outer, ethSrc: source.mac, ethDst, payload: family, ipSrc: source.ip, ipDst, ttl, ...payload };
      return { opening: { inPort: source.port, packet }, order: [true, ...order], again, beginsTwice, reportedBy };
    });
}

interface Opener {
  readonly kind: 'pod' | 'gateway' | 'tunnel';
  readonly port: number;
  readonly mac: Mac;
  readonly ip: Ip;
  readonly outer: Pick<Packet, 'tunSrc' | 'tunDst'>;
}

/** Two clients outside the scene: one that a load balancer admits, one that it does not. */
const external = ['203.0.113.77', '192.0.2.77', '2001:db8:77::1', '2001:db8:78::1'].map(parseIp);

function openers({ node, peers, pods }: Scene, family: Family): Opener[] {
  const ofFamily = (ips: readonly Ip[]) => ips.filter((ip) => ip.family === family);
  const often = [...pods, ...pods, ...pods];
  return [
    ...often.flatMap(({ ofPort, mac, addresses: own }) =>
      ofFamily(own).map((ip): Opener => ({ kind: 'pod', port: ofPort, mac, ip, outer: {} })),
    ),
    // The node, external clients, and pods that connected to an address of their own node.
    ...ofFamily([
      ...node.gateway.addresses,
      ...node.gateway.addresses,
      ...node.transport,
      ...external,
      ...pods.flatMap((pod) => pod.addresses),
      // Forged: virtual addresses, a Service's, and the source of translated external clients.
      ...Object.values(serviceNextHop),
      ...node.serviceCidrs.map((cidr) => cidrAddress(cidr, 16n)),
      ...node.podCidrs.map((cidr) => cidr.network),
    ]).map((ip): Opener => ({ kind: 'gateway', port: node.gateway.ofPort, mac: node.gateway.mac, ip, outer: {} })),
    // Without a tunnel: pods, and the node itself, also in the name of external clients. The node's nftables rules admit only these.
    ...peers
      .filter(({ maySendDirectly }) => maySendDirectly)
      .flatMap(({ podCidrs }) => podCidrs.filter((cidr) => cidr.family === family))
      .flatMap((cidr) => [cidrAddress(cidr, 9n), cidrAddress(cidr, 1n), cidr.network])
      .map((ip): Opener => ({ kind: 'gateway', port: node.gateway.ofPort, mac: node.gateway.mac, ip, outer: {} })),
    ...peers.flatMap(({ podCidrs, transport: ends }) =>
      podCidrs
        .filter((cidr) => cidr.family === family)
        .flatMap((cidr) => [cidrAddress(cidr, 9n), cidrAddress(cidr, 1n)])
        .flatMap((ip) =>
          ends.map((tunSrc): Opener => {
            const tunDst = node.transport.find((own) => own.family === tunSrc.family) ?? fail();
            return { kind: 'tunnel', port: node.tunnel.ofPort, mac: parseMac('0e:00:00:00:02:01'), ip, outer: { tunSrc, tunDst } };
          }),
        ),
    ),
  ];
}

/** Everything that has an address or appears to have one. */
function addresses({ node, peers, pods, services }: Scene, family: Family): Ip[] {
  const outside = { ipv4: ['203.0.113.9', '224.0.0.251', '255.255.255.255'], ipv6: ['2001:db8::9', 'ff02::fb', 'fe80::99'] };
  const all = [
    ...serviceAddresses(services).flatMap((ip) => [ip, ip, ip]),
    ...pods.flatMap(({ addresses: own }) => [...own, ...own]),
    ...peers.flatMap(({ podCidrs, transport: ends }) => [
      ...podCidrs.flatMap((cidr) => [cidrAddress(cidr, 9n), cidrAddress(cidr, 1n)]),
      ...ends,
    ]),
    ...node.gateway.addresses,
    ...node.transport,
    ...node.podCidrs.map((cidr) => cidrAddress(cidr, 77n)),
    ...node.serviceCidrs.map((cidr) => cidrAddress(cidr, 200n)),
    serviceNextHop[family],
    ...outside[family].map(parseIp),
  ];
  return all.filter((ip) => ip.family === family);
}

function serviceAddresses(services: Scene['services']): Ip[] {
  const ofNode = Object.values(nodePortAddress);
  return [...services.flatMap(({ service }) => namedAddresses(service)), ...ofNode, ...ofNode];
}

interface Target {
  readonly protocol: 'tcp' | 'udp';
  readonly ip: Ip;
  readonly port: number;
}

function serviceTargets({ services }: Scene): readonly Target[] {
  return services.flatMap(({ service }) =>
    service.ports.flatMap(({ protocol, port, nodePort }) => {
      const at = (ip: Ip, number: number): Target => ({ protocol: protocol === 'TCP' ? 'tcp' : 'udp', ip, port: number });
      const nodes = nodePort === undefined ? [] : service.ipFamilies.map((family) => at(nodePortAddress[family], nodePort));
      return [...namedAddresses(service).map((ip) => at(ip, port)), ...nodes];
    }),
  );
}

function namedAddresses({ clusterIps, externalIps, loadBalancerIngress }: Scene['services'][number]['service']): Ip[] {
  return [...clusterIps, ...externalIps, ...loadBalancerIngress.map(({ ip }) => ip)].map(parseIp);
}

function interestingPorts({ node, services }: Scene): number[] {
  const ports = services.flatMap(({ service, slices }) => [
    ...service.ports.flatMap(({ port, nodePort }) => [port, port, port, ...(nodePort === undefined ? [] : [nodePort, nodePort])]),
    ...slices.flatMap((slice) => slice.ports.flatMap(({ port }) => port ?? [])),
  ]);
  return [...ports, node.tunnel.port, 9];
}

type ConversationProtocol = 'tcp' | 'udp' | 'icmp' | 'gre';

function transport(protocol: ConversationProtocol, family: Family, portSrc: number, portDst: number): Partial<Packet> {
  if (protocol === 'udp') return { protocol, portSrc, portDst };
  if (protocol === 'tcp') return { protocol, portSrc, portDst, tcpFlags: 'syn' };
  if (protocol === 'gre') return { protocol };
  const icmp = family === 'ipv4' ? 'icmp' : 'icmp6';
  return { protocol: icmp, icmpType: echoRequest[icmp], icmpCode: 0, icmpId: portSrc };
}

/** Next hop of a pod's packets. A forging pod may send to any. */
function nextHop({ node, pods }: Scene, hop: 'gateway' | 'receiver' | 'anybody', ip: Ip): Mac {
  if (hop === 'anybody') return pods.at(-1)?.mac ?? node.gateway.mac;
  const receiver = pods.find(({ addresses: own }) => own.some(({ text }) => text === ip.text));
  return hop === 'receiver' && receiver ? receiver.mac : node.gateway.mac;
}

/** Answer of the receiver of `output`, and its input port. @returns undefined if it was not received */
export function answerTo({ to, packet }: Output): Arrival | undefined {
  if (typeof to !== 'number') return undefined;
  const { ipSrc, ipDst, portSrc, portDst, tunSrc, tunDst, ethSrc, ethDst, icmpType, protocol } = packet;
  if (!ipSrc || !ipDst) return undefined;
  const answer: Packet = {
    ...packet,
    ethSrc: ethDst === virtualMac ? parseMac('0e:00:00:00:02:01') : ethDst,
    ethDst: ethSrc,
    ipSrc: ipDst,
    ipDst: ipSrc,
    ttl: 64,
    ...(portSrc !== undefined && portDst !== undefined && { portSrc: portDst, portDst: portSrc }),
    ...(tunSrc && tunDst && { tunSrc: tunDst, tunDst: tunSrc }),
    ...(packet.tcpFlags && { tcpFlags: packet.tcpFlags === 'syn' ? 'syn-ack' : 'ack-back' }),
    ...(icmpType !== undefined && isEcho(protocol) && { icmpType: flipped(icmpType, protocol) }),
  };
  return { inPort: to, packet: answer };
}

/** Source addresses of a router outside. */
const routers = { ipv4: parseIp('192.0.2.1'), ipv6: parseIp('2001:db8:99::1') } as const;

const tooBig = {
  ipv4: { protocol: 'icmp', icmpType: 3, icmpCode: 4 },
  ipv6: { protocol: 'icmp6', icmpType: 2, icmpCode: 0 },
} as const;

export const exceeded = {
  ipv4: { protocol: 'icmp', icmpType: 11, icmpCode: 0 },
  ipv6: { protocol: 'icmp6', icmpType: 3, icmpCode: 0 },
} as const;

/** The error about a packet that arrived, and its input port. @returns undefined if there is none */
export function errorAbout(scene: Scene, { to, packet }: Output, reportedBy: Conversation['reportedBy']): Arrival | undefined {
  const { payload, protocol, ipSrc, ipDst, portSrc, portDst, tunSrc, tunDst } = packet;
  if (typeof to !== 'number' || !ipSrc || !ipDst || portSrc === undefined || portDst === undefined || reportedBy === 'none')
    return undefined;
  const { family } = ipSrc;
  const error = {
    payload,
    ipDst: ipSrc,
    ttl: 64,
    ...(reportedBy === 'receiver' || portSrc % 2 === 0 ? tooBig : exceeded)[family],
    quotes: { protocol, src: ipSrc, dst: ipDst, srcPort: portSrc, dstPort: portDst },
  } as const;
  if (typeof reportedBy === 'number') {
    const others = openers(scene, family);
    const { port, mac, ip, outer } = others[reportedBy % others.length] ?? fail();
    return { inPort: port, packet: { ...error, ...outer, ethSrc: mac, ethDst: scene.node.gateway.mac, ipSrc: ip } };
  }
  const peer = scene.peers.find(({ transport: ends }) => ends.some((ip) => ip.text === tunDst?.text));
  const network = peer?.podCidrs.find((cidr) => cidr.family === family);
  const isPod = scene.pods.some(({ ofPort }) => ofPort === to);
  const router = network ? cidrAddress(network, 1n) : routers[family];
  const link = { ethSrc: packet.ethDst === virtualMac ? parseMac('0e:00:00:00:02:01') : packet.ethDst, ethDst: packet.ethSrc };
  const outer = tunSrc && tunDst ? { tunSrc: tunDst, tunDst: tunSrc } : {};
  return { inPort: to, packet: { ...error, ...link, ...outer, ipSrc: isPod || reportedBy === 'receiver' ? ipDst : router } };
}

function isEcho(protocol: MatchProtocol | undefined): protocol is 'icmp' | 'icmp6' {
  return protocol === 'icmp' || protocol === 'icmp6';
}

function flipped(icmpType: number, protocol: 'icmp' | 'icmp6'): number {
  return icmpType === echoRequest[protocol] ? echoReply[protocol] : echoRequest[protocol];
}

/** The first packets of the connections that follow. */
export function reopened({ opening, again }: Conversation): readonly Arrival[] {
  const { portSrc } = opening.packet;
  if (portSrc === undefined) return [];
  return Array.from({ length: again }, (_, index) => ({ ...opening, packet: { ...opening.packet, portSrc: portSrc + index + 1 } }));
}

/** The next packet of the opening side: after an answer, TCP continues with an acknowledgement. */
export function nextOf({ opening }: Conversation, answered: boolean): Arrival {
  const { packet } = opening;
  return packet.tcpFlags === 'syn' && answered ? { ...opening, packet: { ...packet, tcpFlags: 'ack' } } : opening;
}

function fail(): never {
  throw new Error('the scene has none of this kind');
}
