import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';

/** Known properties of a pair of interfaces that was created before. */
interface MadeLink {
  /** MTU of both ends when the pair was created. */
  readonly mtu: number;
  /**
   * Identity of the namespace (`SO_NETNS_COOKIE`), because its path may be reused; absent if the kernel, or an older agent, did not provide
   * it.
   */
  readonly netnsCookie?: string | undefined;
  /** Routing table in the pod that has the routes of its end, by family; absent if that is the main table. */
  readonly routeTables?: Readonly<Partial<Record<Family, number>>>;
}

/**
 * Pair of interfaces (veth(4)) of a pre-plugged port, which stays a port of the bridge: one end on the node, one in the node's namespace of
 * ports. Identified by the host end. As a desired entry it is idle: no pod has it.
 */
export interface StandingPair {
  readonly hostName: string;
  readonly farName: string;
  /** MTU of both ends. */
  readonly mtu: number;
  readonly hostEnd: PodLink['hostEnd'];
  readonly checksumOffload: PodLink['checksumOffload'];
}

/**
 * Pair of interfaces (veth(4)) of a pod: one end on the node, one in the pod's network namespace. Identified by the host end.
 *
 * With `farName` it is that of a pre-plugged port: the far end stays in the node's namespace of ports, and the pod has a macvlan on it.
 */
export interface PodLink {
  readonly hostName: string;
  /** Path of the pod's namespace, as given by the runtime. */
  readonly netnsPath: string;
  readonly podName: string;
  /** MAC of the pod's end. */
  readonly mac: Mac;
  /** MTU of both ends. A smaller one that another program sets on the pod's end is kept. */
  readonly mtu: number;
  /** Alias of the host end, or of the far end: `namespace/pod`, and the data needed to identify the pod again. */
  readonly alias: string;
  readonly farName?: string;
  /** `layer2Only`: no ARP and no IPv6 on the host end, which would otherwise answer the pod's queries for the node's addresses. */
  readonly hostEnd: 'layer2Only' | 'plain';
  /** Checksum offload of the pod's end; `keep`: the kernel's default. */
  readonly checksumOffload: 'off' | 'keep';
  readonly addresses: readonly { readonly address: Ip; readonly prefixLength: number }[];
  /** Gateways, with a default route for each. */
  readonly gateways: readonly { readonly address: Ip; readonly mac?: Mac }[];
  readonly routes: readonly { readonly destination: Cidr; readonly gateway?: Ip | undefined }[];
  /** Present if the pair was created before this process began: an existing pair of this name is that one. */
  readonly made?: MadeLink;
}
