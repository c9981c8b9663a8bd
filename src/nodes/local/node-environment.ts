import { createHash } from 'node:crypto';
import { SeineError } from '../../base/errors/seine-error.ts';
import {
  addressBits,
  type Cidr,
  cidrAddress,
  cidrContains,
  type Family,
  type Ip,
  overlaps,
  parseCidr,
  parseIp,
} from '../../base/net/ip.ts';
import { type Mac, macFromBytes } from '../../base/net/mac.ts';
import { specialRanges } from '../../base/net/special-ranges.ts';
import type { NodeEnvironment, NodeWireGuard } from '../../dataplane/compile/environment.ts';
import { ofPorts, type TunnelType, tunnelCarriers, virtualRanges, wireGuardDevice } from '../../dataplane/pipeline/well-known.ts';
import type { LiveSettings } from '../../kubernetes/resources/live-settings.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { type Link, listLinks } from '../../netlink/links.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { NodeConfig } from './node-config.ts';
import { nodeDenied, nodePolicyMode } from './policy-mode.ts';

/** Interface of the node with the properties that matter for tunnels. */
export interface HostInterface {
  readonly name: string;
  readonly mtu: number;
  readonly addresses: readonly Ip[];
}

/** How this node exchanges packets with its peers. */
export interface PeerPaths {
  /** It accepts packets of pods without a tunnel. */
  readonly acceptsDirect: boolean;
  /** It sends to at least one peer through the tunnel, or may have to. */
  readonly usesTunnel: boolean;
  /** The configuration turns encryption off, and peers may still send encrypted packets. */
  readonly isEncryptionEnding: boolean;
}

/** Overhead of each encapsulation, outer IPv4 header included (bytes). */
const overheadBytes: Readonly<Record<TunnelType, number>> = { geneve: 50, vxlan: 50, gre: 42 };
/** Overhead of WireGuard over IPv4: IP header 20, UDP 8, message header 16, authentication 16 (bytes). */
const wireGuardBytes = 60;
/** Least MTU of an interface with IPv6 (bytes): RFC 8200 section 5. */
const ipv6LeastMtu = 1280;
/** Additional length of an outer IPv6 header: RFC 8200 section 3, RFC 791 section 3.1. */
const ipv6MoreBytes = 20;

export function readHostInterfaces(socket: NetlinkSocket): readonly HostInterface[] {
  const addresses = listAddresses(socket);
  return listLinks(socket)
    .filter((link: Link) => !link.loopback)
    .map(({ name, mtu, index }) => ({
      name,
      mtu,
      addresses: addresses.filter(({ link, scope }) => link === index && scope === 'global').map(({ address }) => address),
    }));
}

/**
 * Returns the inputs that are the same for every compiler on this node, from its configuration, its Node object and its interfaces. Pure.
 *
 * @param usedCidrs networks in which the node has pods; those that are no longer its own stay until their last pod is gone
 * @param live settings of all nodes
 * @param paths how packets are exchanged with peers; a part that is omitted: through the tunnel, unencrypted
 * @throws SeineError `UNAVAILABLE` for what may still appear: pod CIDRs, an interface with the node's address
 */
export function resolveEnvironment(
  config: NodeConfig,
  node: Node,
  interfaces: readonly HostInterface[],
  usedCidrs: readonly Cidr[] = [],
  live: LiveSettings = {},
  paths: Partial<PeerPaths> = {},
): NodeEnvironment {
  const podCidrs = onePerFamily(node.podCidrs.map(parseCidr));
  if (podCidrs.length === 0)
    throw new SeineError(
      'UNAVAILABLE',
      `node ${node.name} has no spec.podCIDRs ${node.refusedPodCidrs ? `that are usable: ${node.refusedPodCidrs.join('; ')}` : 'yet'}`,
    );
  for (const cidr of podCidrs) refuseImpossible(cidr, interfaces, config);
  const candidates = interfaces.filter(({ name }) => name !== config.hostGateway);
  const transport = transportInterface(config, node, candidates);
  const ends = carriedEnds(config, tunnelEnds(config, node, transport));
  const type = config.tunnelType;
  const carrier = tunnelCarriers[type];
  const formerPodCidrs = formerCidrs(podCidrs, usedCidrs);
  const policyMode = nodePolicyMode.of({ annotation: node.policyMode, live: live.policyMode, configured: config.policy.mode });
  const { acceptsDirect = false, usesTunnel = true, isEncryptionEnding = false } = paths;
  const wireGuard = wireGuardOf(config, isEncryptionEnding);
  const mtu =
    config.defaultMTU === 0 ? transport.mtu - (usesTunnel || wireGuard ? overheadOf(type, ends, wireGuard) : 0) : config.defaultMTU;
  refuseSmallMtu(mtu, podCidrs, wireGuard);
  const denied = nodeDenied.of({ annotation: node.denied, live: live.denied, configured: config.policy.denied });
  return {
    gateway: {
      name: config.hostGateway,
      ofPort: ofPorts.gateway,
      mac: gatewayMac(node.name),
      mtu,
      addresses: [...podCidrs, ...formerPodCidrs].map((cidr) => cidrAddress(cidr, 1n)),
    },
    tunnel: {
      ofPort: ofPorts.tunnel,
      type,
      port: config.tunnelPort === 0 && carrier.protocol === 'udp' ? carrier.port : config.tunnelPort,
    },
    podCidrs,
    formerPodCidrs,
    transport: ends,
    serviceCidrs: [config.serviceCIDR, config.serviceCIDRv6].filter((cidr) => cidr !== undefined),
    ...(policyMode === 'enforce' ? {} : { policyMode }),
    ...(acceptsDirect ? { directPackets: true } : {}),
    ...(denied === 'drop' ? {} : { denied }),
    ...(wireGuard ? { wireGuard } : {}),
    ...(config.policy.liveConnections === 'cut' ? {} : { liveConnections: config.policy.liveConnections }),
    ...(config.ovsDatapathType === 'netdev' ? { blindToSctp: true } : {}),
  };
}

/**
 * Returns the overhead of the path to any peer: one that joins must not change the MTU of running pods. That of WireGuard is larger than
 * that of any tunnel, which some peers may still have.
 */
function overheadOf(type: TunnelType, ends: readonly Ip[], wireGuard: NodeWireGuard | undefined): number {
  return (wireGuard ? wireGuardBytes : overheadBytes[type]) + (ends.some(({ family }) => family === 'ipv6') ? ipv6MoreBytes : 0);
}

function wireGuardOf({ trafficEncryptionMode, wireGuard }: NodeConfig, isEnding: boolean): NodeWireGuard | undefined {
  const { port, unencryptedPeers } = wireGuard;
  if (trafficEncryptionMode === 'wireGuard') return { device: wireGuardDevice, port, unencryptedPeers };
  return isEnding ? { device: wireGuardDevice, port, unencryptedPeers: 'allow', isEnding } : undefined;
}

/** Rejects an MTU with which the kernel removes IPv6 from the WireGuard device. @throws SeineError `UNAVAILABLE` */
function refuseSmallMtu(mtu: number, podCidrs: readonly Cidr[], wireGuard: NodeWireGuard | undefined): void {
  if (wireGuard === undefined || mtu >= ipv6LeastMtu || podCidrs.every(({ family }) => family === 'ipv4')) return;
  throw new SeineError(
    'UNAVAILABLE',
    `trafficEncryptionMode: wireGuard leaves pods an MTU of ${mtu}, and IPv6 needs ${ipv6LeastMtu}: raise the MTU of the transport interface`,
  );
}

/**
 * Returns the previous networks. One with the same first address as a present one is not a separate network to the node's stack: both have
 * the same gateway address.
 */
function formerCidrs(present: readonly Cidr[], used: readonly Cidr[]): readonly Cidr[] {
  const starts = new Set(present.map(({ network }) => network.text));
  return used.filter(({ network: { text } }) => !starts.has(text) && starts.add(text));
}

/**
 * Rejects a network of pods that would take addresses from the node itself. @throws SeineError `UNAVAILABLE`: the Node object may be
 * corrected
 */
function refuseImpossible(podCidr: Cidr, interfaces: readonly HostInterface[], config: NodeConfig): void {
  const refuse = (why: string): never => {
    throw new SeineError('UNAVAILABLE', `the node's pod network ${podCidr.text} ${why}`);
  };
  if (podCidr.prefixLength >= addressBits(podCidr.family)) refuse('has no room for a gateway and pods');
  const special = [...specialRanges, ...virtualRanges].find((range) => overlaps(range, podCidr));
  if (special) refuse(`overlaps ${special.text}, which no pod can have`);
  const services = [config.serviceCIDR, config.serviceCIDRv6].find((range) => range !== undefined && overlaps(range, podCidr));
  if (services) refuse(`overlaps ${services.text}, the addresses of Services`);
  for (const { name, addresses } of interfaces) {
    const own = name === config.hostGateway ? undefined : addresses.find((ip) => cidrContains(podCidr, ip));
    if (own) refuse(`contains ${own.text}, the address of ${name}`);
  }
}

/**
 * Returns the interface named by the configuration, or the one with an address in a configured range, or the one with the node's own
 * address.
 */
function transportInterface(config: NodeConfig, node: Node, interfaces: readonly HostInterface[]): HostInterface {
  const { transportInterface: named, transportInterfaceCIDRs: ranges } = config;
  const found =
    named !== undefined
      ? interfaces.find(({ name }) => name === named)
      : ranges.length > 0
        ? interfaces.find(({ addresses }) => addresses.some((ip) => ranges.some((range) => cidrContains(range, ip))))
        : interfaces.find(({ addresses }) => addresses.some((ip) => node.internalIps.includes(ip.text)));
  if (found) return found;
  const wanted =
    named ??
    (ranges.length > 0
      ? `with an address in ${ranges.map(({ text }) => text).join(', ')}`
      : `with address ${node.internalIps.join(' or ') || '(the node has none)'}`);
  throw new SeineError('UNAVAILABLE', `there is no transport interface ${wanted}`);
}

/**
 * Returns the addresses by which peers know this node, where the interface has them; otherwise the interface's first of each family. IPv4
 * first.
 *
 * If the Node object names addresses of only one family, the other one is not used: peers send nothing there, and accept nothing from
 * there. Such addresses are e.g. those that an interface generates itself.
 */
function tunnelEnds({ transportInterfaceCIDRs: ranges }: NodeConfig, node: Node, { name, addresses }: HostInterface): readonly Ip[] {
  const families: readonly Family[] = ['ipv4', 'ipv6'];
  const usable = ranges.length === 0 ? addresses : addresses.filter((ip) => ranges.some((range) => cidrContains(range, ip)));
  const ends = families.flatMap((family) => {
    const ofFamily = usable.filter((ip) => ip.family === family);
    return ofFamily.find((ip) => node.internalIps.includes(ip.text)) ?? ofFamily[0] ?? [];
  });
  if (ends.length === 0) throw new SeineError('UNAVAILABLE', `transport interface ${name} has no address`);
  const known = ends.filter(({ family }) => node.internalIps.some((text) => parseIp(text).family === family));
  return known.length > 0 ? known : ends;
}

/** Returns the interface that has one of the tunnel's ends, however it was chosen; undefined if it no longer exists. */
export function carrierOf(ends: readonly Ip[], interfaces: readonly HostInterface[]): string | undefined {
  return interfaces.find(({ addresses }) => addresses.some(({ text }) => ends.some((end) => end.text === text)))?.name;
}

/**
 * Returns the ends that can be used. The kernel carries GRE by one interface over IPv4 and by another over IPv6; the tunnel port of a node
 * is one of them.
 */
function carriedEnds({ tunnelType, ovsDatapathType }: NodeConfig, ends: readonly Ip[]): readonly Ip[] {
  if (tunnelType !== 'gre' || ovsDatapathType !== 'system') return ends;
  return ends.some(({ family }) => family === 'ipv4') ? ends.filter(({ family }) => family === 'ipv4') : ends;
}

function onePerFamily(cidrs: readonly Cidr[]): readonly Cidr[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) => cidrs.find((cidr) => cidr.family === family) ?? []);
}

/** Returns the gateway's MAC. Stable without being stored: pods and the node's neighbours remember it over a restart. */
function gatewayMac(nodeName: string): Mac {
  const bytes = createHash('sha256').update(`gateway of ${nodeName}`).digest().subarray(0, 6);
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return macFromBytes(bytes);
}

/** Returns addresses for callers that have the node's addresses as text. */
export function transportOf(addresses: Readonly<Partial<Record<Family, string>>>): readonly Ip[] {
  return [addresses.ipv4, addresses.ipv6].flatMap((text) => (text === undefined ? [] : parseIp(text)));
}
