import type { Lease } from './ipam/lease.ts';
import type { AttachedPod } from './pod-network-port.ts';

/** The lease of a pod that the data plane has served. */
export type AttachedLease = Lease & { readonly attached: AttachedPod };

export function isAttached(lease: Lease): lease is AttachedLease {
  return lease.attached !== undefined;
}
