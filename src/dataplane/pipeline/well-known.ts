import { type Cidr, hostCidr, type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';

/** OpenFlow ports that are the same on every node, above the range that OVS allocates itself. */
export const ofPorts = { tunnel: 32768, gateway: 32769 } as const;

/** Range of pods' ports. 32770 and 32771 stay free for an uplink and a host port. */
export const podOfPorts = { first: 32784, last: 65279 } as const;

/** Meters of connections that pods open to Services. The meters of pods' egress limits have the numbers of the pods' ports. */
export const openingsMeters = { first: 1, last: 1 + podOfPorts.last - podOfPorts.first } as const;

/** MAC of every next hop over the tunnel, and of the next hop of Services. */
export const virtualMac = parseMac('aa:bb:cc:dd:ee:ff');

/** Next hop of Service routes on the node, and source address of hairpin connections. */
export const serviceNextHop: Readonly<Record<'ipv4' | 'ipv6', Ip>> = {
  ipv4: parseIp('169.254.0.253'),
  ipv6: parseIp('fc01::aabb:ccdd:eeff'),
};

/** Target of node ports in the node's nftables rules, for all of the node's addresses; the port stays the node port. */
export const nodePortAddress: Readonly<Record<'ipv4' | 'ipv6', Ip>> = {
  ipv4: parseIp('169.254.0.252'),
  ipv6: parseIp('fc01::aabb:ccdd:eefe'),
};

/**
 * Source address that nftables gives to external clients' connections that a kube-proxy on the same node masquerades. The gateway's
 * address, which kube-proxy would use, identifies the node itself to policy.
 */
export const masqueradedExternal: Readonly<Record<'ipv4' | 'ipv6', Ip>> = {
  ipv4: parseIp('169.254.0.251'),
  ipv6: parseIp('fc01::aabb:ccdd:eefd'),
};

/** Virtual addresses from which the gateway sends no packets. */
export const unsentRanges: readonly Cidr[] = [parseCidr('169.254.0.252/31'), parseCidr('fc01::aabb:ccdd:eefe/127')];

/** All virtual addresses. */
export const virtualRanges: readonly Cidr[] = [...unsentRanges, ...Object.values(masqueradedExternal).map((ip) => hostCidr(ip))];

/** Conntrack zones. Connections outlive an agent: numbers are never reused for another purpose. */
export const zones = {
  ipv4: { main: 65520, snat: 65521 },
  ipv6: { main: 65510, snat: 65511 },
} as const;

/** First byte of the userdata of a packet that the bridge sends to the agent. */
export const packetInReason = {
  noEndpoint: 4,
  halfOpen: 5,
  untranslated: 6,
  denied: 7,
  unservedPort: 8,
  timeExceeded: 9,
  refused: 10,
  probe: 11,
  opened: 12,
  ended: 13,
  answered: 14,
  seen: 15,
} as const;
export type PipelinePacketInReason = keyof typeof packetInReason;

/** Meters of pods' received traffic, by pods' ports; they follow those of sent traffic, which have the numbers of the ports. */
export const ingressMeters = { first: podOfPorts.last + 1 } as const;

/** Meters of pods' denied packets that are copied to the agent: `offset` plus the pod's port. */
export const deniedMeters = { offset: 0x1_0000, first: 0x1_0000 + podOfPorts.first } as const;

/** Meters of admitted connections that are copied to the agent, by the port of their first packet: `offset` plus the port. */
export const openedMeters = { offset: 0x2_0000, first: 0x2_0000 } as const;

/** Meters of packets that end TCP connections and are copied to the agent: `offset` plus the port by which they enter. */
export const endedMeters = { offset: 0x3_0000, first: 0x3_0000 } as const;

/** Meters of packets of established connections that are copied to the agent: `offset` plus the port by which they enter. */
export const seenMeters = { offset: 0x4_0000, first: 0x4_0000 } as const;

/** Meters of the node, between those of `openingsMeters` and of pods' egress limits. */
export const nodeMeters = { unservedPorts: 32_700, refusals: 32_701, probes: 32_702 } as const;

/** Meters of packets whose TTL ends on this hop: one for each value of the last bits of the source address, below those of the node. */
export const timeExceededMeters = { first: 32_512, count: 64 } as const;

/** Meters of denied packets that may be answered: one for each value of the last bits of the source address; they follow those above. */
export const refusalMeters = { first: 32_576, count: 64 } as const;

/** Meters of flooded packets: one for each value of the last bits of the sender's MAC. */
export const announcementMeters = { first: 32_704, count: 64 } as const;

/**
 * Key of trace probes in the tunnel: the last twelve bits are the number of the probe. Other packets have the key 0. The key of VXLAN and
 * Geneve has 24 bits.
 */
export const probeTunnelKey = { value: 0x5e_1000, mask: 0xff_f000 } as const;

/** UDP port, or IP protocol for GRE, of each tunnel type. */
export const tunnelCarriers = {
  geneve: { protocol: 'udp', port: 6081 },
  vxlan: { protocol: 'udp', port: 4789 },
  gre: { protocol: 'gre', ipProtocol: 47 },
} as const;
export type TunnelType = keyof typeof tunnelCarriers;

/**
 * Bit of the packet mark (`skb->mark`) on packets that processes of the node send to the bridge, on the kernel data path. The tunnel packet
 * still has the socket of the process; the bit, which only a privileged process can set, distinguishes it from a forged one.
 */
export const nodeTrafficMark = 0x20;

/**
 * Routing of the node's own traffic to the bridge for Service ports at addresses outside the cluster: bit of a packet's mark, table of
 * routes to these addresses, and priorities of the rules for it. The first rule is for marked packets; the other comes after the main table
 * (32766) and the default one, for nodes that have no route to such an address.
 */
export const externalRouting = { mark: 0x1000, table: 24_158, rules: { marked: 94, otherwise: 32_800 } } as const;

/** Name of the node's WireGuard device. */
export const wireGuardDevice = 'antrea-wg0';

/** Metric of Seine's blackhole routes: any other route to the same destination takes precedence. */
export const blackholeMetric = 4096;

/** Interface of blackhole routes, by which the kernel shows them in IPv6. */
export const loopback = 'lo';
