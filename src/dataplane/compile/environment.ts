import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import { ipFromValue } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { TunnelType } from '../pipeline/well-known.ts';

export const policyModes = ['enforce', 'audit', 'off'] as const;

/** Mode of policy. `audit`: denied packets are counted and pass. `off`: policies do not apply to any pod. */
export type PolicyMode = (typeof policyModes)[number];

export const liveConnectionsChoices = ['cut', 'keep'] as const;

export const deniedChoices = ['drop', 'reject'] as const;

export const unencryptedPeersChoices = ['drop', 'allow'] as const;

/** Encryption by WireGuard between this node and its peers. */
export interface NodeWireGuard {
  /** Name of the device. */
  readonly device: string;
  /** UDP port of this node, and of its peers. */
  readonly port: number;
  /** Packets for peers without a key: dropped, or sent as without encryption. */
  readonly unencryptedPeers: (typeof unencryptedPeersChoices)[number];
  /** Encryption is being turned off: this node sends without it, and still accepts encrypted packets. */
  readonly isEnding?: true;
}

/** Inputs that are the same for every compiler on this node. */
export interface NodeEnvironment {
  readonly gateway: {
    readonly name: string;
    readonly ofPort: number;
    readonly mac: Mac;
    /** MTU of the gateway and of every pod: the transport interface's, less the tunnel's overhead where one is used. */
    readonly mtu: number;
    /** First address of each pod CIDR, followed by those of previous pod CIDRs. */
    readonly addresses: readonly Ip[];
  };
  readonly tunnel: { readonly ofPort: number; readonly type: TunnelType; readonly port: number };
  /** Pod networks, at most one of each family. */
  readonly podCidrs: readonly Cidr[];
  /** Earlier pod CIDRs of this node in which it still has pods. */
  readonly formerPodCidrs?: readonly Cidr[];
  /** Tunnel end points of this node, at most one of each family. */
  readonly transport: readonly Ip[];
  /** Service address ranges that this node serves; empty where another proxy serves them. */
  readonly serviceCidrs: readonly Cidr[];
  /** Other addresses of the node, on any interface except the gateway; may include those of `transport`. */
  readonly localAddresses?: readonly Ip[];
  /** Absent: `enforce`. */
  readonly policyMode?: PolicyMode;
  /** Treatment of admitted connections that policies deny later: they end (`cut`, the default), or continue. */
  readonly liveConnections?: (typeof liveConnectionsChoices)[number];
  /** Connection tracking does not see SCTP ports: all associations of two addresses are one connection to it. */
  readonly blindToSctp?: true;
  /** Absent: packets between nodes are not encrypted. */
  readonly wireGuard?: NodeWireGuard;
  /** Packets of pods are accepted without a tunnel from peers that announce them, and may be sent so. */
  readonly directPackets?: true;
  /** Answer to denied pods where neither a namespace nor a policy states it: none (`drop`, the default), or a refusal. */
  readonly denied?: (typeof deniedChoices)[number];
}

/** Returns every network in which pods of this node live. */
export function ownCidrs({ podCidrs, formerPodCidrs = [] }: NodeEnvironment): readonly Cidr[] {
  return [...podCidrs, ...formerPodCidrs];
}

/**
 * Returns the addresses from which this node sends, and at which it is reached. Traffic that the node's connection tracking sees leaves
 * through the gateway's port with the gateway's address; other traffic, e.g. that which NodeLocal DNSCache exempts, with any of the node's
 * addresses.
 */
export function ownAddresses({ gateway, transport, localAddresses = [], podCidrs }: NodeEnvironment): readonly Ip[] {
  const families = new Set(podCidrs.map(({ family }) => family));
  const all = new Map([...gateway.addresses, ...transport, ...localAddresses].map((ip) => [ip.text, ip]));
  return [...all.values()].filter(({ family }) => families.has(family));
}

/**
 * Source address of external clients' connections to pods of other nodes: the network's own address, which no pool allocates. The gateway's
 * ports belong to the node itself, and a reply to one would not show its connection.
 */
export function externalSource({ network }: Cidr): Ip {
  return network;
}

export function familiesOf(environment: NodeEnvironment): readonly Family[] {
  return [...new Set(ownCidrs(environment).map((cidr) => cidr.family))];
}

/** Returns the IPv6 link-local address that Linux derives from an Ethernet address (RFC 4291 appendix A, modified EUI-64). */
export function linkLocal(mac: Mac): Ip {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((byte) => Number.parseInt(byte, 16));
  const identifier = [a ^ 2, b, c, 0xff, 0xfe, d, e, f].reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  return ipFromValue('ipv6', (0xfe80n << 112n) | identifier);
}

/** Reports whether policy is evaluated for each reply that needs no acknowledgement: where policies end established connections. */
export function checksReplies({ liveConnections, policyMode = 'enforce' }: NodeEnvironment): boolean {
  return liveConnections !== 'keep' && policyMode === 'enforce';
}
