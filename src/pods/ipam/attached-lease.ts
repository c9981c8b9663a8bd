import type { AttachedPod } from './attachment.ts';
import type { Lease } from './lease.ts';

/** The lease of a pod that the data plane has served. */
export type AttachedLease = Lease & { readonly attached: AttachedPod };

export function isAttached(lease: Lease): lease is AttachedLease {
  return lease.attached !== undefined;
}
