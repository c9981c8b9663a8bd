import { SeineError } from '../../base/errors/seine-error.ts';
import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { CniDns } from '../../cni/result.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';
import type { AttachedPod, AttachmentKey, PodAddress, PodIdentity, PodRoute } from './attachment.ts';

/**
 * State of an address: free → `allocated` → `quarantined` → free.
 *
 * `allocated` is durable before the address is used. `quarantined` means that its owner has released it, but that it may still be on an
 * interface, in a flow or in a neighbour table: it becomes free only with proof of absence.
 */
type LeaseState = 'allocated' | 'quarantined';

/** Addresses and MAC of one attachment, and all that is needed to find the pod after a restart. */
export interface Lease extends AttachmentKey {
  /** Serial number, which grows with every lease. An attachment may get a new lease while an older one is still in quarantine. */
  readonly serial: number;
  readonly state: LeaseState;
  /** Addresses, one for each family, IPv4 first. */
  readonly addresses: readonly PodAddress[];
  readonly mac: Mac;
  readonly netns: string;
  readonly pod?: PodIdentity;
  readonly egress?: RateLimit;
  readonly ingress?: RateLimit;
  readonly limits?: 'both';
  readonly hostPorts?: readonly HostPort[];
  /**
   * Other plugin that allocated the addresses; absent if the agent did. Then the lease is only a record, and the plugin decides when they
   * are free.
   */
  readonly ipamType?: string;
  /** Other parts of that plugin's result. */
  readonly routes?: readonly PodRoute[];
  readonly dns?: CniDns;
  /** Present once the data plane has acknowledged the pod. A lease without it is an ADD in progress, or one that was interrupted. */
  readonly attached?: AttachedPod;
}

/** Range of addresses to allocate: the node's pod CIDR of one family. */
export interface Pool {
  readonly cidr: Cidr;
  /** Gateway, which is never allocated. */
  readonly gateway: Ip;
}

export interface LeaseRequest extends AttachmentKey {
  readonly netns: string;
  readonly pod?: PodIdentity;
  /** Addresses that the runtime requests, at most one of a family. Other families get the next free address. */
  readonly addresses: readonly Ip[];
  readonly mac?: Mac;
  readonly egress?: RateLimit;
  readonly ingress?: RateLimit;
  readonly limits?: 'both';
  readonly hostPorts?: readonly HostPort[];
}

export interface PoolUsage {
  readonly cidr: string;
  /** Number of addresses that can be allocated. */
  readonly size: number;
  readonly allocated: number;
  readonly quarantined: number;
}

/** Text that identifies a key. None of the three parts may contain a slash (CNI forbids it). */
export function attachmentId(key: AttachmentKey): string {
  return `${key.network}/${key.containerId}/${key.ifName}`;
}

/** Returns `NAMESPACE/NAME`, or the container's ID if the runtime names no pod. */
export function podName({ pod, containerId }: Pick<Lease, 'pod' | 'containerId'>): string {
  return pod ? `${pod.namespace}/${pod.name}` : containerId;
}

/** Checks that the caller still waits for the lease. @throws SeineError `CANCELLED` otherwise */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw SeineError.from(signal.reason, 'lease of an address');
}
