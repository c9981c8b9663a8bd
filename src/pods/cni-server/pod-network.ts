import type { ReadyState } from '../../nodes/local/readiness.ts';
import type { AttachedPod, AttachmentKey, PodAttachment } from '../ipam/attachment.ts';

/**
 * Operations on the node's network that the CNI server needs for a pod. The server never calls two methods for one container at the same
 * time.
 */
export interface PodNetwork {
  /**
   * Attaches a pod, all or nothing, and returns once bridge and kernel have acknowledged it. After a failure, or if `signal` aborts,
   * nothing is left. If the pod's namespace already has an interface of that name, that interface is not changed.
   *
   * @throws SeineError `INVALID_INPUT` (with `context.variable` if one CNI_* variable is at fault) if the namespace does not exist, is not
   * a network namespace or is the host's own, or if the interface exists; any other error is a failure of the node.
   */
  attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod>;

  /** Detaches a pod; a missing one is not an error. Returns once flows and port are gone, without waiting for the kernel's veth. */
  detach(key: AttachmentKey, signal: AbortSignal): Promise<void>;

  /** Returns one sentence for each difference from `want` and `attached`; empty if there is none. */
  check(want: PodAttachment, attached: AttachedPod, signal: AbortSignal): Promise<readonly string[]>;

  ready(): ReadyState;

  /** Resolves once the node is ready. @throws SeineError `CANCELLED` if `signal` aborts first */
  whenReady(signal: AbortSignal): Promise<void>;
}
