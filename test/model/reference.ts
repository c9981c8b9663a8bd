import { type Cidr, cidrAddress, cidrContains, type Ip, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import type { Mac } from '../../src/base/net/mac.ts';
import { linkLocal } from '../../src/dataplane/compile/environment.ts';
import { nodePortAddress, serviceNextHop, tunnelCarriers, virtualMac } from '../../src/dataplane/pipeline/well-known.ts';
import {
  describePacket,
  mayOpen,
  type Packet,
  reversed,
  type Tuple,
  tupleKey,
  tupleOf,
  withQuoted,
  withTuple,
} from '../../src/dataplane/switch-model/packet.ts';
import type { Output } from '../../src/dataplane/switch-model/switch-model.ts';
import { exceeded } from './conversation.ts';
import type { Scene } from './scene.ts';
import { type Promised, promised, type Vantage } from './service-reference.ts';

/** A possible fate of a packet. */
export interface PacketOutcome {
  readonly outputs: readonly Output[];
  /** The new connection, if there is one. */
  readonly began?: Connection;
  /** A client that will stay with its endpoint. */
  readonly chose?: { readonly client: string; readonly endpoint: string };
}

/** Addresses seen by the client, and by the endpoint. They differ for Services. */
export interface Connection {
  readonly asked: Tuple;
  readonly given: Tuple;
  readonly service: boolean;
  /** True if both ends are at one port. */
  readonly hairpin: boolean;
  /** True if it was opened through the node. */
  readonly byGateway: boolean;
}

type From = 'pod' | 'gateway' | 'tunnel';

interface Arrival {
  readonly from: From;
  readonly inPort: number;
  readonly packet: Packet;
}

interface Place {
  readonly kind: From;
  /** Behind the gateway, on another node that is reached without a tunnel. */
  readonly direct?: true;
  readonly port: number;
  readonly mac: Mac;
}

const dropped: readonly PacketOutcome[] = [{ outputs: [] }];
const allTargets = [parseCidr('224.0.0.0/4'), parseCidr('255.255.255.255/32'), parseCidr('ff00::/8')];
const [allNodes, noIpv4, noIpv6] = [parseIp('ff02::1'), parseIp('0.0.0.0'), parseIp('::')];
const neighbourDiscovery = { solicitation: 135, advertisement: 136, all: [133, 134, 135, 136, 137] };

/**
 * Required fates of packets on a node, from the product's documented behaviour and nothing else: no table, register or mark is known here.
 *
 * 1. A pod sends with its own addresses only. Nodes send by tunnel only from their known addresses, and only for
 *    their own pods and gateway.
 * 2. Every client reaches every pod; none reaches an unused address; nothing returns to its input port.
 * 3. A new connection to a Service goes to one of its endpoints and stays there; answers have the Service's address. Without
 *    endpoints it is refused.
 * 4. A connection whose client is its endpoint is answered from another address; external clients reach endpoints on other nodes from
 *    the pod network's own address. All other sources stay. Requests through the node are answered through the node.
 *    A peer without a tunnel is behind the gateway. Every connection of the node or of external clients to an endpoint there has the pod
 *    network's own address, and its packets return to their input port; the node's other packets to its pods never pass the bridge.
 * 5. Pods and peers cannot send tunnel packets to nodes.
 * 6. Routed packets have the gateway's MAC as source and a decremented TTL; the node decrements its own. A packet whose TTL or hop limit
 *    ends there goes to the agent instead of its receiver, also if the receiver is behind its input port.
 * 7. No client has an address of a Service or a virtual one, nor the destination's; and an endpoint that is the destination by its own
 *    address and port gets the packet unchanged.
 * 8. An ICMP error reaches the sender of the packet that it is about, and quotes it in that sender's form. It passes from an end of the
 *    connection, from the node of an end, and from the gateway. Time exceeded of a node or a router keeps its source. On the kernel's data
 *    path an error of the opening side passes from nodes and from the gateway alone.
 */
export class Reference {
  readonly #scene: Scene;
  readonly #datapath: 'userspace' | 'kernel';
  readonly #connections = new Map<string, { readonly connection: Connection; readonly reply: boolean }>();
  /** Endpoint of a client at an address. */
  readonly #stays = new Map<string, string>();

  constructor(scene: Scene, datapath: 'userspace' | 'kernel') {
    this.#scene = scene;
    this.#datapath = datapath;
  }

  /** Every allowed outcome of this packet; the actual one is passed to `settle`. */
  fates(inPort: number, packet: Packet): readonly PacketOutcome[] {
    const from = this.#from(inPort, packet);
    if (!from || packet.vlan !== undefined || packet.payload === 'other') return dropped;
    const arrival = { from, inPort, packet };
    if (packet.payload === 'arp') return this.#arp(arrival);
    if (!this.#scene.node.podCidrs.some(({ family }) => family === packet.payload)) return dropped;
    if (packet.protocol === 'icmp6' && neighbourDiscovery.all.includes(packet.icmpType ?? -1)) return this.#neighbourDiscovery(arrival);
    if (from === 'pod' && !this.#isOwn(inPort, packet.ethSrc, packet.ipSrc)) return dropped;
    if (from === 'tunnel' && !this.#isOfPeer(packet)) return dropped;
    return packet.quotes ? this.#error(arrival, packet.quotes) : this.#routed(arrival);
  }

  settle({ began, chose }: PacketOutcome): void {
    if (chose) this.#stays.set(chose.client, chose.endpoint);
    if (!began) return;
    this.#connections.set(tupleKey(began.asked), { connection: began, reply: false });
    this.#connections.set(tupleKey(reversed(began.given)), { connection: began, reply: true });
  }

  #from(inPort: number, { tunSrc }: Packet): From | undefined {
    const { node, pods } = this.#scene;
    if (inPort === node.gateway.ofPort) return 'gateway';
    if (inPort === node.tunnel.ofPort) return this.#reachablePeers().some(({ transport }) => has(transport, tunSrc)) ? 'tunnel' : undefined;
    return pods.some(({ ofPort }) => ofPort === inPort) ? 'pod' : undefined;
  }

  #reachablePeers() {
    const { node, peers } = this.#scene;
    return peers.filter(({ transport }) => transport.some((remote) => node.transport.some(({ family }) => family === remote.family)));
  }

  /** Reports whether the node that a tunnel packet came from has the sender's network. */
  #isOfPeer({ tunSrc, ipSrc }: Packet): boolean {
    const senders = this.#reachablePeers().filter(({ transport }) => has(transport, tunSrc));
    return ipSrc !== undefined && senders.some(({ podCidrs }) => podCidrs.some((cidr) => cidrContains(cidr, ipSrc)));
  }

  #isOwn(port: number, mac: Mac, ip: Ip | undefined): boolean {
    return this.#scene.pods.some((pod) => pod.ofPort === port && pod.mac === mac && has(pod.addresses, ip));
  }

  #arp({ from, inPort, packet }: Arrival): readonly PacketOutcome[] {
    const { node, pods } = this.#scene;
    const { arpSpa, arpTpa, arpSha, ethSrc, arpOp } = packet;
    if (from === 'tunnel' || !arpTpa || !node.podCidrs.some(({ family }) => family === 'ipv4')) return dropped;
    const sender = pods.find(({ ofPort }) => ofPort === inPort);
    if (sender) {
      const probe = same(arpSpa, noIpv4) && has(sender.addresses, arpTpa);
      if (ethSrc !== sender.mac || arpSha !== sender.mac || !(has(sender.addresses, arpSpa) || probe)) return dropped;
      if (has(sender.addresses, arpTpa)) return delivered('flood', packet);
    }
    const owner = pods.find(({ addresses }) => has(addresses, arpTpa));
    if (owner) return delivered(owner.ofPort, packet, inPort);
    if (has(node.gateway.addresses, arpTpa)) return delivered(node.gateway.ofPort, packet, inPort);
    const isPeerGateway = this.#peerCidrs().some((cidr) => same(cidrAddress(cidr, 1n), arpTpa));
    if (!isPeerGateway || arpOp !== 'request') return dropped;
    const answer = {
      arpOp: 'reply',
      arpSha: virtualMac,
      arpSpa: arpTpa,
      ...(arpSha && { arpTha: arpSha }),
      ...(arpSpa && { arpTpa: arpSpa }),
    } as const;
    return delivered(inPort, { ...packet, ethSrc: virtualMac, ethDst: ethSrc, ...answer });
  }

  #neighbourDiscovery(arrival: Arrival): readonly PacketOutcome[] {
    const { node, pods } = this.#scene;
    const { from, inPort, packet } = arrival;
    const { icmpType, ipDst, ndTarget, ethDst } = packet;
    if (from === 'tunnel' || (packet.icmpCode ?? 0) !== 0) return dropped;
    const sender = pods.find(({ ofPort }) => ofPort === inPort);
    const own = sender ? neighbourAddresses(sender.mac, sender.addresses) : [];
    if (sender && !maySend(packet, sender.mac, own)) return dropped;
    const gateway = neighbourAddresses(node.gateway.mac, node.gateway.addresses);
    if (icmpType === neighbourDiscovery.solicitation) {
      if (has(own, ndTarget)) return delivered('flood', packet);
      const owner = pods.find(({ mac, addresses }) => has(neighbourAddresses(mac, addresses), ndTarget));
      if (owner) return delivered(owner.ofPort, packet, inPort);
      return has(gateway, ndTarget) ? delivered(node.gateway.ofPort, packet, inPort) : dropped;
    }
    if (icmpType !== neighbourDiscovery.advertisement) return dropped;
    if (sender && same(ipDst, allNodes)) return delivered('flood', packet);
    const client = pods.find(({ mac, addresses }) => has(neighbourAddresses(mac, addresses), ipDst));
    if (client) return delivered(client.ofPort, packet, inPort);
    return has(gateway, ipDst) && ethDst === node.gateway.mac ? delivered(node.gateway.ofPort, packet, inPort) : dropped;
  }

  #error(arrival: Arrival, quotes: Tuple): readonly PacketOutcome[] {
    const known = this.#connections.get(tupleKey(reversed(quotes)));
    // Pods do not know the networks' own addresses.
    if (arrival.from === 'pod' && this.#isOwnNetwork(quotes.src)) return dropped;
    if (!known || !same(arrival.packet.ipDst, quotes.src) || !this.#mayReport(arrival, known)) return dropped;
    const { connection, reply } = known;
    const { asked, given, service } = connection;
    const [before, after] = reply ? [reversed(given), reversed(asked)] : [asked, given];
    // A client that is the endpoint gets it back, whatever path the connection took.
    const asItself = { ...connection, hairpin: same(given.src, serviceNextHop[given.src.family]) };
    const translated = withQuoted(arrival.packet, before, after);
    const { ipSrc } = arrival.packet;
    const seen = ipSrc && reply && service && this.#isHop(arrival) ? { ...translated, ipSrc } : translated;
    return [{ outputs: this.#deliver(arrival, asItself, reply, seen).outputs }];
  }

  /** Time exceeded names the hop where it came from. */
  #isHop({ from, packet }: Arrival): boolean {
    const { icmpType, protocol, tunSrc, ipSrc } = packet;
    if (icmpType !== (protocol === 'icmp' ? exceeded.ipv4.icmpType : exceeded.ipv6.icmpType)) return false;
    return from === 'gateway' || (from === 'tunnel' && this.#isNode(tunSrc, ipSrc));
  }

  #isNode(tunSrc: Ip | undefined, ip: Ip | undefined): boolean {
    return this.#networksOf(tunSrc).some((cidr) => [0n, 1n].some((own) => same(ip, cidrAddress(cidr, own))));
  }

  #networksOf(tunSrc: Ip | undefined): readonly Cidr[] {
    const senders = this.#reachablePeers().filter(({ transport }) => has(transport, tunSrc));
    return senders.flatMap(({ podCidrs }) => podCidrs);
  }

  #mayReport(
    { from, inPort, packet }: Arrival,
    { connection, reply }: { readonly connection: Connection; readonly reply: boolean },
  ): boolean {
    if (from === 'gateway') return true;
    const { asked, given, service } = connection;
    const isCompared = reply || this.#datapath === 'userspace';
    const ends = [asked.src, asked.dst, ...(service ? [given.dst] : [])];
    if (from === 'pod')
      return isCompared && this.#scene.pods.some(({ ofPort, addresses }) => ofPort === inPort && ends.some((end) => has(addresses, end)));
    const networks = this.#networksOf(packet.tunSrc);
    const isRemote = service && this.#place(given.dst)?.kind === 'tunnel';
    if (this.#isNode(packet.tunSrc, packet.ipSrc)) return true;
    return isCompared && (isRemote || networks.some((cidr) => cidrContains(cidr, asked.src) || cidrContains(cidr, asked.dst)));
  }

  #routed(arrival: Arrival): readonly PacketOutcome[] {
    const tuple = tupleOf(arrival.packet);
    if (!tuple) return dropped;
    const known = this.#connections.get(tupleKey(tuple));
    if (known) return [this.#send(arrival, known.connection, known.reply)];
    if (!mayOpen(arrival.packet)) return dropped;
    const plain = { asked: tuple, given: tuple, service: false, hairpin: false, byGateway: arrival.from === 'gateway' };
    if (arrival.from === 'gateway' && this.#isNoSource(tuple.src)) return dropped;
    const service = arrival.from === 'tunnel' ? undefined : this.#promised(arrival, tuple);
    if (!service)
      return this.#isUnservedPort(arrival, tuple) ? delivered('agent: unservedPort', arrival.packet) : [this.#send(arrival, plain, false)];
    if (service.what === 'dropped') return dropped;
    if (service.what === 'refused') return delivered('agent: noEndpoint', arrival.packet);
    const stays = service.affinity ? this.#stays.get(choiceKey(tuple)) : undefined;
    const open = stays !== undefined && service.endpoints.includes(stays) ? [stays] : service.endpoints;
    return open.map((endpoint) => {
      if (endpoint === `${tuple.dst.text} ${tuple.dstPort}`) return this.#send(arrival, plain, false);
      return {
        ...this.#send(arrival, this.#connect(arrival, tuple, endpoint), false),
        ...(service.affinity && { chose: { client: choiceKey(tuple), endpoint } }),
      };
    });
  }

  /** The agent decides: it knows whether the address is a Service's. */
  #isUnservedPort({ from, packet }: Arrival, { protocol, dst }: Tuple): boolean {
    const { tunnel, serviceCidrs } = this.#scene.node;
    const isTunnelled = protocol === 'udp' && tunnel.type !== 'gre' && packet.portDst === tunnel.port;
    if (from === 'tunnel' || (from === 'pod' && isTunnelled) || this.#place(dst) !== undefined) return false;
    return (protocol === 'tcp' || protocol === 'udp' || protocol === 'sctp') && serviceCidrs.some((cidr) => cidrContains(cidr, dst));
  }

  #isNoSource(ip: Ip): boolean {
    const { serviceCidrs } = this.#scene.node;
    const virtual = [nodePortAddress, serviceNextHop].some((addresses) => same(ip, addresses[ip.family]));
    return virtual || serviceCidrs.some((cidr) => cidrContains(cidr, ip)) || this.#isOwnNetwork(ip);
  }

  #promised({ from, packet }: Arrival, { protocol, src, dst, srcPort, dstPort }: Tuple): Promised | undefined {
    const { services } = this.#scene;
    if (same(src, dst) && srcPort === dstPort) return undefined;
    // The virtual address of node ports is only for packets that the node's nftables rules send there.
    if (packet.ipDst && same(packet.ipDst, nodePortAddress[dst.family]) && from !== 'gateway') return undefined;
    const by = { kind: this.#kindOf(from, src), ip: src };
    return promised(services, { protocol, ip: dst, port: dstPort }, by, vantageOf(this.#scene));
  }

  /** The node's own packets have the gateway's address; its pods keep theirs on the path through the node. */
  #kindOf(from: From, ip: Ip): 'pod' | 'node' | 'external' {
    const { node } = this.#scene;
    if (from === 'pod') return 'pod';
    if (has(node.gateway.addresses, ip)) return 'node';
    return node.podCidrs.some((cidr) => cidrContains(cidr, ip)) ? 'pod' : 'external';
  }

  #connect({ from }: Arrival, asked: Tuple, endpoint: string): Connection {
    const [text = '', port] = endpoint.split(' ');
    const ip = parseIp(text);
    const place = this.#place(ip);
    const itself = same(asked.src, ip);
    const hairpin = (from === 'pod' && itself) || (from === 'gateway' && place?.kind === 'gateway' && !place.direct);
    const kind = this.#kindOf(from, asked.src);
    // The kernel refuses addresses of the node itself from the bridge; a pod that came through a node port keeps its own.
    // In the tunnel a process of the node keeps it too, unless replies may come directly: the kernel would not give them to the bridge.
    const isTranslated = place?.direct
      ? kind !== 'pod'
      : place?.kind === 'tunnel' && (kind === 'external' || (kind === 'node' && this.#hasDirectPeers()));
    const fromAfar = from === 'gateway' && isTranslated;
    const network = this.#scene.node.podCidrs.find(({ family }) => family === ip.family)?.network;
    const src = fromAfar && network ? network : hairpin || itself ? serviceNextHop[ip.family] : asked.src;
    return { asked, given: { ...asked, src, dst: ip, dstPort: Number(port) }, service: true, hairpin, byGateway: from === 'gateway' };
  }

  #send(arrival: Arrival, connection: Connection, reply: boolean): PacketOutcome {
    // The receiver is the endpoint, before a hairpin's source is replaced.
    return this.#deliver(arrival, connection, reply, withTuple(arrival.packet, reply ? reversed(connection.asked) : connection.given));
  }

  #deliver({ from, inPort, packet }: Arrival, connection: Connection, reply: boolean, translatedPacket: Packet): PacketOutcome {
    const { service, hairpin, byGateway } = connection;
    const began = reply ? {} : { began: connection };
    const toGateway: Place = { kind: 'gateway', port: this.#scene.node.gateway.ofPort, mac: this.#scene.node.gateway.mac };
    const place =
      reply && byGateway && (service || from === 'pod') ? toGateway : translatedPacket.ipDst && this.#place(translatedPacket.ipDst);
    // What the gateway sends about a connection that it did not open, or that began in the tunnel, has another source.
    const isOfPod = byGateway && translatedPacket.ipSrc !== undefined && this.#kindOf(from, translatedPacket.ipSrc) === 'pod';
    const staysInTunnel = place?.direct && !this.#isOwnNetwork(connection.given.src) && !isOfPod;
    const to = from === 'gateway' && service && staysInTunnel ? this.#tunnel : place;
    if (!to || !this.#mayGo(from, to, translatedPacket, { service, answer: reply && byGateway }))
      return { outputs: [], ...(service && began) };
    const { gateway } = this.#scene.node;
    const routed = service || from === 'tunnel' || to.kind === 'tunnel' || to.direct || (from === 'pod' && packet.ethDst === gateway.mac);
    const counts = routed && from !== 'gateway' && to.kind !== 'gateway';
    const { tunSrc: _from, tunDst: _to, ...inner } = translatedPacket;
    const outer = to.kind === 'tunnel' && translatedPacket.ipDst ? this.#tunnelTo(translatedPacket.ipDst) : {};
    const ttl = packet.ttl ?? 0;
    const sent = { ...inner, ethSrc: routed ? gateway.mac : packet.ethSrc, ethDst: to.mac };
    if (counts && ttl <= 1) return { outputs: [{ to: 'agent: timeExceeded', packet: sent }], ...began };
    const { src, dst } = connection.given;
    const other = this.#place(dst);
    const isOfPodToPeer = this.#kindOf('gateway', src) === 'pod' && !this.#isOwnNetwork(src) && (other?.direct || other?.kind === 'tunnel');
    const isReturned = from === 'gateway' && service && byGateway && (this.#isOwnNetwork(src) || isOfPodToPeer) && this.#hasDirectPeers();
    if (to.port === inPort && !hairpin && !isReturned) return { outputs: [], ...began };
    return { outputs: [{ to: to.port, packet: { ...sent, ...outer, ttl: ttl - (counts ? 1 : 0) } }], ...began };
  }

  /** The port of an address; undefined for an address that cannot exist. */
  #place(ip: Ip): Place | undefined {
    const { node, pods } = this.#scene;
    const pod = pods.find(({ addresses }) => has(addresses, ip));
    if (pod) return { kind: 'pod', port: pod.ofPort, mac: pod.mac };
    if (allTargets.some((cidr) => cidrContains(cidr, ip)) || same(ip, serviceNextHop[ip.family])) return undefined;
    if (this.#peers(ip).some(({ direct }) => direct?.[ip.family] !== undefined))
      return { kind: 'gateway', port: node.gateway.ofPort, mac: node.gateway.mac, direct: true };
    if (this.#peerCidrs().some((cidr) => cidrContains(cidr, ip))) return this.#tunnel;
    if (node.serviceCidrs.some((cidr) => cidrContains(cidr, ip))) return undefined;
    return { kind: 'gateway', port: node.gateway.ofPort, mac: node.gateway.mac };
  }

  #mayGo(from: From, to: Place, { ipDst, protocol, portDst }: Packet, { service, answer }: { service: boolean; answer: boolean }): boolean {
    if (to.direct) return from !== 'tunnel' && (from === 'pod' || service);
    if (to.kind !== 'gateway' || !ipDst) return true;
    const { gateway, tunnel, podCidrs } = this.#scene.node;
    const carrier = tunnelCarriers[tunnel.type];
    const tunnelled = carrier.protocol === 'gre' ? protocol === 'gre' : protocol === 'udp' && portDst === tunnel.port;
    if (tunnelled && from !== 'gateway') return false;
    if (service && answer) return true;
    if (has(gateway.addresses, ipDst)) return true;
    if (from === 'pod') return true;
    return from === 'gateway' && service && !podCidrs.some((cidr) => cidrContains(cidr, ipDst));
  }

  get #tunnel(): Place {
    return { kind: 'tunnel', port: this.#scene.node.tunnel.ofPort, mac: virtualMac };
  }

  /** Peers with this address in their networks. */
  #peers(ip: Ip) {
    return this.#reachablePeers().filter(({ podCidrs }) => podCidrs.some((cidr) => cidrContains(cidr, ip)));
  }

  #isOwnNetwork(ip: Ip): boolean {
    return this.#scene.node.podCidrs.some(({ network }) => same(ip, network));
  }

  #hasDirectPeers(): boolean {
    return this.#reachablePeers().some(({ maySendDirectly }) => maySendDirectly);
  }

  #peerCidrs(): Cidr[] {
    const { podCidrs } = this.#scene.node;
    return this.#reachablePeers()
      .flatMap((peer) => peer.podCidrs)
      .filter((cidr) => podCidrs.some(({ family }) => family === cidr.family));
  }

  #tunnelTo(ip: Ip): Pick<Packet, 'tunSrc' | 'tunDst'> {
    const peer = this.#reachablePeers().find(({ podCidrs }) => podCidrs.some((cidr) => cidrContains(cidr, ip)));
    const tunDst = peer?.transport.find((remote) => this.#scene.node.transport.some(({ family }) => family === remote.family));
    const tunSrc = this.#scene.node.transport.find(({ family }) => family === tunDst?.family);
    return { ...(tunSrc && { tunSrc }), ...(tunDst && { tunDst }) };
  }
}

/** Vantage point of Services in a scene. */
export function vantageOf({ node, proxying }: Scene): Vantage {
  return {
    nodeName: proxying.node.name,
    ...(proxying.node.zone === undefined ? {} : { zone: proxying.node.zone }),
    nodeAddresses: node.transport,
    nodePortIp: nodePortAddress,
    externalRanges: proxying.config.externalIpRanges,
    sctp: proxying.node.sctp,
  };
}

/** Affinity is between a client and one of a Service's addresses. */
function choiceKey({ protocol, src, dst, dstPort }: Tuple): string {
  return `${protocol} ${src.text} ${dst.text} ${dstPort}`;
}

/** One line, equal for equal fates. */
export function describeOutcome({ outputs }: Pick<PacketOutcome, 'outputs'>): string {
  return outputs.length === 0 ? 'nothing' : outputs.map(({ to, packet }) => `to ${to}: ${describePacket(packet)}`).join('; ');
}

/** A pod sends neighbour messages with its own MAC and addresses. Source: RFC 4861 sections 4.3 and 4.4. */
function maySend(packet: Packet, mac: Mac, own: readonly Ip[]): boolean {
  const { ethSrc, icmpType, ipSrc, ndTarget, ndSll, ndTll } = packet;
  if (ethSrc !== mac) return false;
  if (icmpType === neighbourDiscovery.solicitation) {
    if (same(ipSrc, noIpv6)) return ndSll === undefined && has(own, ndTarget);
    return has(own, ipSrc) && (ndSll === undefined || ndSll === mac);
  }
  return icmpType === neighbourDiscovery.advertisement && has(own, ipSrc) && has(own, ndTarget) && (ndTll === undefined || ndTll === mac);
}

function neighbourAddresses(mac: Mac, addresses: readonly Ip[]): readonly Ip[] {
  const global = addresses.filter(({ family }) => family === 'ipv6');
  return global.length === 0 ? [] : [...global, linkLocal(mac)];
}

function delivered(to: Output['to'], packet: Packet, inPort?: number): readonly PacketOutcome[] {
  return to === inPort ? dropped : [{ outputs: [{ to, packet }] }];
}

function same(a: Ip | undefined, b: Ip): boolean {
  return a !== undefined && a.family === b.family && a.value === b.value;
}

function has(list: readonly Ip[], ip: Ip | undefined): boolean {
  return list.some((each) => same(ip, each));
}
