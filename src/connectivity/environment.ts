import type { Cidr, Family, Ip } from '../net/ip.ts';
import { ipFromValue } from '../net/ip.ts';
import type { Mac } from '../net/mac.ts';
import type { TunnelType } from '../pipeline/well-known.ts';

/** What is the same for every compiler on this node. */
export interface NodeEnvironment {
  readonly gateway: {
    readonly name: string;
    readonly ofPort: number;
    readonly mac: Mac;
    /** Of the gateway and of every pod: what a tunnel leaves of the transport interface's. */
    readonly mtu: number;
    /** First address of each pod CIDR, and after these of each former one. */
    readonly addresses: readonly Ip[];
  };
  readonly tunnel: { readonly ofPort: number; readonly type: TunnelType; readonly port: number };
  /** At most one of each family. */
  readonly podCidrs: readonly Cidr[];
  /** Networks that this node had before, and in which it still has pods. */
  readonly formerPodCidrs?: readonly Cidr[];
  /** This node's tunnel end points, at most one of each family. */
  readonly transport: readonly Ip[];
  /** Service address ranges that this node serves; empty where Services are left to somebody else. */
  readonly serviceCidrs: readonly Cidr[];
}

/** Every network that pods of this node live in. */
export function ownCidrs({ podCidrs, formerPodCidrs = [] }: NodeEnvironment): readonly Cidr[] {
  return [...podCidrs, ...formerPodCidrs];
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
