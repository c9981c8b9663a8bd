import type { Cidr, Family, Ip } from '../net/ip.ts';
import type { Mac } from '../net/mac.ts';

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

/** What a pod may send: a token bucket. */
export interface EgressLimit {
  /** Bits a second. */
  readonly rate: number;
  /** Bits. */
  readonly burst: number;
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
  readonly egress?: EgressLimit;
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

/**
 * - `ready`     pods are served
 * - `starting`  not yet, or not now; existing pods keep what they have (STATUS 50)
 * - `impaired`  existing pods are affected as well, e.g. no vswitchd (STATUS 51)
 */
export type ReadyState = { readonly state: 'ready' } | { readonly state: 'starting' | 'impaired'; readonly reason: string };

/** The node's data plane as the CNI server sees it. The server never calls two methods for one container at a time. */
export interface PodNetwork {
  /**
   * Wires a pod, all or nothing, and returns once the data plane has acknowledged it: a failure, or `signal`, leaves nothing
   * behind. If the pod's namespace already has an interface of that name, that one is not touched.
   *
   * @throws SeineError `INVALID_INPUT` (with `context.variable` if it is the fault of one CNI_* variable) for a namespace that
   *   does not exist, is no namespace or is the host's own, or an interface that exists; anything else is our trouble.
   */
  attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod>;

  /** Takes down what is there of it; nothing there is fine. Returns once flows and port are gone, without waiting for the kernel's veth. */
  detach(key: AttachmentKey, signal: AbortSignal): Promise<void>;

  /** One sentence for each thing that is not as `want` and `attached` say; empty if all is well. */
  check(want: PodAttachment, attached: AttachedPod, signal: AbortSignal): Promise<readonly string[]>;

  ready(): ReadyState;

  /** @throws SeineError `CANCELLED` if `signal` comes first */
  whenReady(signal: AbortSignal): Promise<void>;
}
