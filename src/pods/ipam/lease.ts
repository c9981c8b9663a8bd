import { SeineError } from '../../base/errors/seine-error.ts';
import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { CniDns } from '../../cni/result.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';
import type { AttachedPod, AttachmentKey, PodAddress, PodIdentity, PodRoute } from './attachment.ts';

/**
 * The life of an address: free → `allocated` → `quarantined` → free.
 *
 * `allocated` is durable before anybody uses the address. `quarantined` means that its owner has given it up, but that the
 * address may still be on an interface, in a flow or in a neighbour table: it becomes free only with proof of absence.
 */
type LeaseState = 'allocated' | 'quarantined';

/** The addresses and the MAC of one attachment, and all that is needed to find the pod again after a restart. */
export interface Lease extends AttachmentKey {
  /** Grows with every lease ever given; a key may be leased again while an older lease of it is still in quarantine. */
  readonly serial: number;
  readonly state: LeaseState;
  /** One for each family, IPv4 first. */
  readonly addresses: readonly PodAddress[];
  readonly mac: Mac;
  readonly netns: string;
  readonly pod?: PodIdentity;
  readonly egress?: RateLimit;
  readonly ingress?: RateLimit;
  readonly limits?: 'both';
  readonly hostPorts?: readonly HostPort[];
  /** The plugin that lent the addresses, if it was not us: we keep the record only, and it decides when they are free. */
  readonly ipamType?: string;
  /** What that plugin gave besides. */
  readonly routes?: readonly PodRoute[];
  readonly dns?: CniDns;
  /** Present once the data plane has acknowledged the pod; a lease without it is an ADD that has not ended, or was cut short. */
  readonly attached?: AttachedPod;
}

/** A range addresses are lent from: the node's pod CIDR of one family. */
export interface Pool {
  readonly cidr: Cidr;
  /** Never lent. */
  readonly gateway: Ip;
}

export interface LeaseRequest extends AttachmentKey {
  readonly netns: string;
  readonly pod?: PodIdentity;
  /** Addresses the runtime asks for, at most one of a family; a family that is not named gets the next free one. */
  readonly addresses: readonly Ip[];
  readonly mac?: Mac;
  readonly egress?: RateLimit;
  readonly ingress?: RateLimit;
  readonly limits?: 'both';
  readonly hostPorts?: readonly HostPort[];
}

export interface PoolUsage {
  readonly cidr: string;
  /** Addresses that can be lent at all. */
  readonly size: number;
  readonly allocated: number;
  readonly quarantined: number;
}

/** A string that is equal exactly when the keys are; none of the three parts may contain a slash (CNI forbids it). */
export function attachmentId(key: AttachmentKey): string {
  return `${key.network}/${key.containerId}/${key.ifName}`;
}

/** `NAMESPACE/NAME`, or the container's ID where the runtime names no pod. */
export function podName({ pod, containerId }: Pick<Lease, 'pod' | 'containerId'>): string {
  return pod ? `${pod.namespace}/${pod.name}` : containerId;
}

/** @throws SeineError `CANCELLED` if who asked for a lease has given up */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw SeineError.from(signal.reason, 'lease of an address');
}
