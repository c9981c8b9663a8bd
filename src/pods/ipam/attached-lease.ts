import type { AttachedPod } from './attachment.ts';
import type { Lease } from './lease.ts';

/** Lease of a pod whose attachment the data plane has acknowledged. */
export type AttachedLease = Lease & { readonly attached: AttachedPod };

export function isAttached(lease: Lease): lease is AttachedLease {
  return lease.attached !== undefined;
}
