import type { TracedPacket } from '../../api/trace.ts';
import { cidrContains, type Family, type Ip, ipFromValue, parseIp } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { KnownField, PacketState, WalkedFields } from '../../dataplane/flow-walk/packet-state.ts';
import { virtualMac } from '../../dataplane/pipeline/well-known.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import type { TraceQuestion } from './trace-question.ts';

const etherTypes = { ipv4: 0x0800, ipv6: 0x86dd } as const;
const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const;
const icmp = { ipv4: { number: 1, type: 'icmp_type', request: 8 }, ipv6: { number: 58, type: 'icmpv6_type', request: 128 } } as const;
const protocolNames: Readonly<Record<number, string>> = { 1: 'ICMP', 6: 'TCP', 17: 'UDP', 58: 'ICMPv6', 132: 'SCTP' };
const portFields: Readonly<Record<number, readonly [KnownField, KnownField]>> = {
  6: ['tcp_src', 'tcp_dst'],
  17: ['udp_src', 'udp_dst'],
  132: ['sctp_src', 'sctp_dst'],
};
const ARP = 0x0806;
const SOLICITATION = 135;
const SOLICITED_NODE = parseIp('ff02::1:ff00:0').value;
const SYN = 0x02;
const ACK = 0x10;
const TTL = 64;

/** Ends of the packet: one address of each. */
interface PacketEnds {
  readonly source: Ip;
  readonly destination: Ip;
}

/** Returns the fields of the packet that opens the connection, or of a later one, as it enters the bridge. */
export function packetOf(question: TraceQuestion, ends: PacketEnds, environment: NodeEnvironment, leases: readonly Lease[]): WalkedFields {
  const { source, destination } = ends;
  const { family } = source;
  const local = leases.find((each) => each.state === 'allocated' && each.addresses.some(({ ip }) => ip.text === destination.text));
  const [from, to] = family === 'ipv4' ? (['ip_src', 'ip_dst'] as const) : (['ipv6_src', 'ipv6_dst'] as const);
  if (isUnknownNeighbour(question, destination, environment, local)) return neighbourRequest(question, ends);
  return {
    ...linkOf(question, environment, local?.mac),
    ...outerOf(question, environment),
    eth_type: etherTypes[family],
    [from]: source.value,
    [to]: destination.value,
    nw_ttl: TTL,
    ...transportOf(question, family),
  };
}

/** A pod asks for the Ethernet address of a neighbour before it sends to it. Reports whether there is none to answer. */
function isUnknownNeighbour(
  { from }: TraceQuestion,
  destination: Ip,
  { podCidrs, gateway }: NodeEnvironment,
  local: Lease | undefined,
): boolean {
  const isGateway = gateway.addresses.some(({ text }) => text === destination.text);
  return from.pod !== undefined && !local && !isGateway && podCidrs.some((network) => cidrContains(network, destination));
}

/** ARP request (RFC 826), or neighbour solicitation to the multicast address of the target (RFC 4861 section 4.3, RFC 4291 section 2.7.1). */
function neighbourRequest({ from }: TraceQuestion, { source, destination }: PacketEnds): WalkedFields {
  const [mac, in_port] = [from.pod ? macNumber(from.pod.mac) : 0, from.pod?.ofPort ?? 0];
  const link = { in_port, eth_src: mac };
  if (source.family === 'ipv4') {
    const arp = { arp_op: 1, arp_sha: mac, arp_spa: source.value, arp_tpa: destination.value };
    return { ...link, eth_dst: 0xffff_ffff_ffff, eth_type: ARP, ...arp };
  }
  const end = destination.value & 0xff_ffffn;
  const ip = { eth_type: etherTypes.ipv6, ipv6_src: source.value, ipv6_dst: SOLICITED_NODE | end, ip_proto: icmp.ipv6.number, nw_ttl: 255 };
  const solicitation = { icmpv6_type: SOLICITATION, nd_target: destination.value, nd_sll: mac };
  return { ...link, eth_dst: 0x3333_ff00_0000n | end, ...ip, ...solicitation };
}

/** Ethernet addresses and the input port. A neighbour on the same node is addressed directly, all else through the gateway. */
function linkOf({ from }: TraceQuestion, { gateway, tunnel }: NodeEnvironment, neighbour: Mac | undefined): WalkedFields {
  const [gatewayMac, next] = [macNumber(gateway.mac), macNumber(virtualMac)];
  if (from.pod)
    return { in_port: from.pod.ofPort, eth_src: macNumber(from.pod.mac), eth_dst: neighbour ? macNumber(neighbour) : gatewayMac };
  if (from.kind === 'tunnel') return { in_port: tunnel.ofPort, eth_src: gatewayMac, eth_dst: next };
  return { in_port: gateway.ofPort, eth_src: gatewayMac, eth_dst: neighbour ? macNumber(neighbour) : next };
}

/** Outer addresses: the tunnel between two nodes has the family that both have, IPv4 first. */
function outerOf({ from: { peer } }: TraceQuestion, { transport }: NodeEnvironment): WalkedFields {
  const family = (['ipv4', 'ipv6'] as const).find(
    (each) => peer?.transport[each] !== undefined && transport.some((own) => own.family === each),
  );
  const own = transport.find((each) => each.family === family);
  const other = family && peer?.transport[family];
  if (!own || !other) return {};
  const remote = ipValueOf(other, own.family);
  return own.family === 'ipv4' ? { tun_src: remote, tun_dst: own.value } : { tun_ipv6_src: remote, tun_ipv6_dst: own.value };
}

function ipValueOf(text: string, family: Family): bigint {
  return parseIp(text).family === family ? parseIp(text).value : 0n;
}

function transportOf({ protocol, port = 0, sourcePort, isEstablished }: TraceQuestion, family: Family): WalkedFields {
  if (protocol === 'icmp') return { ip_proto: icmp[family].number, [icmp[family].type]: icmp[family].request };
  const number = protocolNumbers[protocol];
  const flags = protocol === 'tcp' ? { tcp_flags: isEstablished ? ACK : SYN } : {};
  return { ip_proto: number, [`${protocol}_src`]: sourcePort, [`${protocol}_dst`]: port, ...flags };
}

function macNumber(mac: Mac): number {
  return Number.parseInt(mac.replaceAll(':', ''), 16);
}

/** Returns an address of a packet. */
export function addressIn(packet: PacketState, end: 'src' | 'dst'): Ip {
  const isIpv4 = packet.get('eth_type') === BigInt(etherTypes.ipv4);
  if (packet.get('eth_type') === BigInt(ARP)) return ipFromValue('ipv4', packet.get(end === 'src' ? 'arp_spa' : 'arp_tpa'));
  if (end === 'dst' && packet.get('icmpv6_type') === BigInt(SOLICITATION)) return ipFromValue('ipv6', packet.get('nd_target'));
  return ipFromValue(isIpv4 ? 'ipv4' : 'ipv6', packet.get(isIpv4 ? `ip_${end}` : `ipv6_${end}`));
}

/** Returns the outer destination of a packet for the tunnel. */
export function tunnelDestination(packet: PacketState): Ip | undefined {
  const [ipv4, ipv6] = [packet.get('tun_dst'), packet.get('tun_ipv6_dst')];
  if (ipv4 !== 0n) return ipFromValue('ipv4', ipv4);
  return ipv6 === 0n ? undefined : ipFromValue('ipv6', ipv6);
}

function tunnelSource(packet: PacketState): Ip | undefined {
  const [ipv4, ipv6] = [packet.get('tun_src'), packet.get('tun_ipv6_src')];
  if (ipv4 !== 0n) return ipFromValue('ipv4', ipv4);
  return ipv6 === 0n ? undefined : ipFromValue('ipv6', ipv6);
}

export function portIn(packet: PacketState, end: 0 | 1): number | undefined {
  const names = portFields[Number(packet.get('ip_proto'))];
  return names && Number(packet.get(names[end]));
}

export function tracedPacket(packet: PacketState): TracedPacket {
  const [sourcePort, destinationPort] = [portIn(packet, 0), portIn(packet, 1)];
  const [outerSource, outerDestination] = [tunnelSource(packet), tunnelDestination(packet)];
  const protocol = Number(packet.get('ip_proto'));
  return {
    protocol: packet.get('eth_type') === BigInt(ARP) ? 'ARP' : (protocolNames[protocol] ?? String(protocol)),
    source: addressIn(packet, 'src').text,
    ...(sourcePort !== undefined && { sourcePort }),
    destination: addressIn(packet, 'dst').text,
    ...(destinationPort !== undefined && { destinationPort }),
    ttl: Number(packet.get('nw_ttl')),
    ...(outerSource && outerDestination && { tunnel: { source: outerSource.text, destination: outerDestination.text } }),
  };
}
