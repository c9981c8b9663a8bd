import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';

/** Identity of an attachment: CNI's network name, container ID and interface name. */
export interface AttachmentKey {
  readonly network: string;
  readonly containerId: string;
  /** Name of the interface inside the container. */
  readonly ifName: string;
}

/** Pod that the container belongs to, as kubelet reports it in CNI_ARGS. Absent for podman, `ctr` and other runtimes without Kubernetes. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  /** UID of the pod; empty if the runtime did not report it. */
  readonly uid: string;
}

/** Address of a pod. `gateway` is the next hop of its default route in that family. */
export interface PodAddress {
  readonly ip: Ip;
  readonly prefixLength: number;
  readonly gateway: Ip;
}

/** Route besides the default ones. Without a gateway the destination is on the link. */
export interface PodRoute {
  readonly destination: Cidr;
  readonly gateway?: Ip;
}

/** Everything needed to attach one pod. At most one address per family. */
export interface PodAttachment extends AttachmentKey {
  /** Path of the network namespace as given by the runtime. */
  readonly netns: string;
  readonly pod?: PodIdentity;
  readonly addresses: readonly PodAddress[];
  /** Routes from another IPAM plugin; the agent's IPAM has none. */
  readonly routes?: readonly PodRoute[];
  readonly mac: Mac;
  /** Limit of what the pod sends. */
  readonly egress?: RateLimit;
  /** Limit of what the pod receives. */
  readonly ingress?: RateLimit;
  /**
   * Present if OVS limits both directions, on either data path. If absent, a chained plugin does, except for traffic that the pod sends on
   * the userspace data path.
   */
  readonly limits?: 'both';
  /** Host ports that are translated to the pod; absent if there are none. */
  readonly hostPorts?: readonly HostPort[];
}

/** Result of attaching a pod, as reported to the runtime. */
export interface AttachedPod {
  readonly hostIfName: string;
  readonly hostMac: Mac;
  readonly mtu: number;
  /** Cookie of the namespace, because its path may be reused (`namespaceCookie`). Absent from records of an older agent or of OVSDB. */
  readonly netnsCookie?: string;
  /**
   * Routing tables in the pod by family, with this interface's routes for packets from its addresses. Absent if the pod had no default
   * route before: then the main table has them.
   */
  readonly routeTables?: Readonly<Partial<Record<Family, number>>>;
}
