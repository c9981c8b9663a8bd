import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';

/** What makes one attachment different from every other: CNI's (network name, container ID, interface name). */
export interface AttachmentKey {
  readonly network: string;
  readonly containerId: string;
  /** Name of the interface inside the container. */
  readonly ifName: string;
}

/** Who the container belongs to, as kubelet said in CNI_ARGS. Absent for podman, `ctr` and other runtimes without Kubernetes. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  /** Empty if the runtime did not say. */
  readonly uid: string;
}

/** One address of a pod. `gateway` is the next hop of its default route in that family. */
export interface PodAddress {
  readonly ip: Ip;
  readonly prefixLength: number;
  readonly gateway: Ip;
}

/** A route besides the default ones. Without gateway the destination is on the link. */
export interface PodRoute {
  readonly destination: Cidr;
  readonly gateway?: Ip;
}

/** Everything needed to wire one pod. At most one address per family. */
export interface PodAttachment extends AttachmentKey {
  /** Path of the network namespace exactly as the runtime gave it. */
  readonly netns: string;
  readonly pod?: PodIdentity;
  readonly addresses: readonly PodAddress[];
  /** From another IPAM plugin; ours gives none. */
  readonly routes?: readonly PodRoute[];
  readonly mac: Mac;
  /** What it may send. */
  readonly egress?: RateLimit;
  /** What it may receive. */
  readonly ingress?: RateLimit;
  /** Present if the switch limits both directions, on either data path; absent: a plugin behind ours does, but for what it sends on the userspace one. */
  readonly limits?: 'both';
  /** Ports of the node that lead to it; absent: none. */
  readonly hostPorts?: readonly HostPort[];
}

/** What became of it, as the runtime is told. */
export interface AttachedPod {
  readonly hostIfName: string;
  readonly hostMac: Mac;
  readonly mtu: number;
  /** The namespace itself, whose path may be given to another (`namespaceCookie`). Absent from what an older agent or the switch's database remembers. */
  readonly netnsCookie?: string;
  /**
   * By family, the routing table in the pod that has this interface's routes, for packets from its addresses. Absent where the
   * pod had no default route before: the main table has them then.
   */
  readonly routeTables?: Readonly<Partial<Record<Family, number>>>;
}
