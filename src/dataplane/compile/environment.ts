import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import { ipFromValue } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { TunnelType } from '../pipeline/well-known.ts';

export const policyModes = ['enforce', 'audit', 'off'] as const;

/** `audit`: what policies deny is counted and goes on. `off`: no pod is policed. */
export type PolicyMode = (typeof policyModes)[number];

export const liveConnectionsChoices = ['cut', 'keep'] as const;

/** What is the same for every compiler on this node. */
export interface NodeEnvironment {
  readonly gateway: {
    readonly name: string;
    readonly ofPort: number;
    readonly mac: Mac;
    /** MTU of the gateway and of every pod: the transport interface's less the tunnel's overhead. */
    readonly mtu: number;
    /** First address of each pod CIDR, and after these of each former one. */
    readonly addresses: readonly Ip[];
  };
  readonly tunnel: { readonly ofPort: number; readonly type: TunnelType; readonly port: number };
  /** At most one of each family. */
  readonly podCidrs: readonly Cidr[];
  /** Earlier pod CIDRs of this node in which it still has pods. */
  readonly formerPodCidrs?: readonly Cidr[];
  /** This node's tunnel end points, at most one of each family. */
  readonly transport: readonly Ip[];
  /** Service address ranges that this node serves; empty where another proxy serves them. */
  readonly serviceCidrs: readonly Cidr[];
  /** What else the node is reached at, on any interface but the gateway; transport's may be among them. */
  readonly localAddresses?: readonly Ip[];
  /** Absent: `enforce`. */
  readonly policyMode?: PolicyMode;
  /** What becomes of connections that were let in and policies deny now: they end (`cut`, also if absent), or go on. */
  readonly liveConnections?: (typeof liveConnectionsChoices)[number];
  /** The connection tracker sees no ports of SCTP: all associations of two addresses are one connection to it. */
  readonly blindToSctp?: true;
}

/** Every network that pods of this node live in. */
export function ownCidrs({ podCidrs, formerPodCidrs = [] }: NodeEnvironment): readonly Cidr[] {
  return [...podCidrs, ...formerPodCidrs];
}

/**
 * What this node sends from, and is reached at. What its packet filter tracks leaves by the gateway's port with the gateway's address; the
 * rest, e.g. what NodeLocal DNSCache exempts from that, with whatever address it has.
 */
export function ownAddresses({ gateway, transport, localAddresses = [], podCidrs }: NodeEnvironment): readonly Ip[] {
  const families = new Set(podCidrs.map(({ family }) => family));
  const all = new Map([...gateway.addresses, ...transport, ...localAddresses].map((ip) => [ip.text, ip]));
  return [...all.values()].filter(({ family }) => families.has(family));
}

/**
 * What the world's connections to pods of other nodes come from: the network's own address, which no pool lends. The gateway's ports
 * are the node's own, and an answer to one would not show whose it is.
 */
export function worldSource({ network }: Cidr): Ip {
  return network;
}

export function familiesOf(environment: NodeEnvironment): readonly Family[] {
  return [...new Set(ownCidrs(environment).map((cidr) => cidr.family))];
}

/** The IPv6 link-local address that Linux derives from an Ethernet address (RFC 4291 appendix A, modified EUI-64). */
export function linkLocal(mac: Mac): Ip {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((octet) => Number.parseInt(octet, 16));
  const identifier = [a ^ 2, b, c, 0xff, 0xfe, d, e, f].reduce((value, octet) => (value << 8n) | BigInt(octet), 0n);
  return ipFromValue('ipv6', (0xfe80n << 112n) | identifier);
}

/** Whether answers that nobody has to acknowledge are asked about, each time: where policies end what lives. */
export function asksAboutAnswers({ liveConnections, policyMode = 'enforce' }: NodeEnvironment): boolean {
  return liveConnections !== 'keep' && policyMode === 'enforce';
}
