import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';

/** What is known of a pair of interfaces that was made before. */
interface MadeLink {
  /** Of both ends, as it was made. */
  readonly mtu: number;
  /** The namespace itself, whose path may be given to another (`SO_NETNS_COOKIE`); absent if the kernel, or an older agent, did not say. */
  readonly netnsCookie?: string | undefined;
  /** By family, the routing table in the pod that has the routes of its end; absent where the main table has them. */
  readonly routeTables?: Readonly<Partial<Record<Family, number>>>;
}

/**
 * The pair of interfaces (veth(4)) of a standing port, which stays plugged in: one end on the node, one in the node's namespace of ports.
 * Identified by the node's end. As wanted here it is idle: no pod has it.
 */
export interface StandingPair {
  readonly hostName: string;
  readonly farName: string;
  /** Of both ends. */
  readonly mtu: number;
  readonly hostEnd: PodLink['hostEnd'];
  readonly checksumOffload: PodLink['checksumOffload'];
}

/**
 * The pair of interfaces (veth(4)) of a pod: one end on the node, one in the pod's network namespace. Identified by the node's end.
 *
 * With `farName` it is a standing port's: the other end stays in the node's namespace of ports, and the pod has a macvlan over it.
 */
export interface PodLink {
  readonly hostName: string;
  /** The pod's namespace, as the runtime gave it. */
  readonly netnsPath: string;
  readonly podName: string;
  /** Of the pod's end. */
  readonly mac: Mac;
  /** Of both ends. A smaller one that another program gives the pod's end stays. */
  readonly mtu: number;
  /** Of the node's end, or of the far end: `namespace/pod`, and what is needed to know the pod again. */
  readonly alias: string;
  readonly farName?: string;
  /** `layer2Only`: no ARP and no IPv6 at the node's end, which would answer the pod's questions for the node's addresses. */
  readonly hostEnd: 'layer2Only' | 'plain';
  /** Of the pod's end; `keep`: as the kernel makes it. */
  readonly checksumOffload: 'off' | 'keep';
  readonly addresses: readonly { readonly address: Ip; readonly prefixLength: number }[];
  /** A default route for each. */
  readonly gateways: readonly { readonly address: Ip; readonly mac?: Mac }[];
  readonly routes: readonly { readonly destination: Cidr; readonly gateway?: Ip | undefined }[];
  /** Present if the pair was made before this process began: what is found under its name is it. */
  readonly made?: MadeLink;
}
