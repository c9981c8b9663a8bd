import type { ReadyState } from '../../nodes/local/readiness.ts';
import type { AttachedPod, AttachmentKey, PodAttachment } from '../ipam/attachment.ts';

/** What the CNI server asks of the node for a pod. The server never calls two methods for one container at a time. */
export interface PodNetwork {
  /**
   * Wires a pod, all or nothing, and returns once bridge and kernel have acknowledged it: a failure, or `signal`, leaves nothing
   * behind. If the pod's namespace already has an interface of that name, that one is not touched.
   *
   * @throws SeineError `INVALID_INPUT` (with `context.variable` if it is the fault of one CNI_* variable) for a namespace that
   *   does not exist, is no namespace or is the host's own, or an interface that exists; anything else is a failure of the node.
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
