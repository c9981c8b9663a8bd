import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { type AttachedLease, isAttached } from '../ipam/attached-lease.ts';
import type { PodIdentity } from '../ipam/attachment.ts';
import { type Lease, podName } from '../ipam/lease.ts';
import type { NodePods } from './node-pods.ts';

/** How often leases are compared with the Pods of the node (ms). */
export const goneLookEveryMs = 5_000;
/**
 * How long a pod must be gone from the API server, and its namespace and interface from the node, before its DEL is waited for no longer
 * (ms). Runtimes send it within seconds; one that comes later finds nothing to do.
 */
const SAFE_MS = 30_000;
/** After how long a pod is told of that the API server does not have and that lives on (ms): kubelet ends such a pod by itself. */
const LIVING_TOLD_MS = 60_000;

interface GonePodsOptions {
  readonly leases: () => readonly Lease[];
  readonly pods: Pick<NodePods, 'wordOf' | 'isGoneNow'>;
  /** Whether what is known of Pods is in step with the API server. */
  readonly isInStep: () => boolean;
  /** Whether anything of the pod's sandbox is left on the node: its namespace, or the node's end of its interface. */
  readonly hasSandbox: (lease: AttachedLease) => boolean;
  /** Does what a DEL would do. */
  readonly abandon: (lease: Lease, signal: AbortSignal) => Promise<void>;
  readonly log: Log;
  readonly nowMs?: () => number;
}

/** A pod that has a lease, and that the API server does not have. */
interface Suspect {
  readonly lease: AttachedLease;
  /** When that was first seen, without a break. */
  readonly sinceMs: number;
  /** Since when nothing of its sandbox was there either; undefined while something is. */
  readonly emptySinceMs: number | undefined;
}

/** For the status: a pod whose addresses are kept although the API server does not have it. */
interface KeptPod {
  readonly pod: string;
  readonly why: string;
}

/**
 * Finds leases whose pod is gone and whose DEL never came: a runtime that lost its own data, a container that was removed by hand. Certain
 * is only what API server and kernel say alike, for a time, and the API server once more when asked: then what a DEL would do is done.
 *
 * Never touched: pods of no cluster (podman, `ctr`), static pods, and addresses that another plugin has lent, which needs a DEL's
 * configuration to take them back.
 */
export class GonePods {
  readonly #options: GonePodsOptions;
  readonly #nowMs: () => number;
  /** By serial. */
  #suspects = new Map<number, Suspect>();
  #released = 0;

  constructor(options: GonePodsOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Pods whose DEL was done without being asked for. */
  get released(): number {
    return this.#released;
  }

  /** Pods that the API server does not have and that keep their addresses, with the reason. */
  get kept(): readonly KeptPod[] {
    const nowMs = this.#nowMs();
    return [...this.#suspects.values()].flatMap(({ lease, sinceMs, emptySinceMs }) => {
      if (emptySinceMs === undefined && nowMs - sinceMs < LIVING_TOLD_MS) return [];
      return [{ pod: podName(lease), why: reasonToKeep(lease, emptySinceMs) }];
    });
  }

  /** Compares once, and releases what is certain. A pod that cannot be released stays and is tried again; the others are not kept waiting. */
  async look(signal: AbortSignal): Promise<void> {
    this.#suspects = this.#options.isInStep() ? this.#compare() : new Map();
    for (const { lease, emptySinceMs } of this.#suspects.values()) {
      if (emptySinceMs === undefined || this.#nowMs() - emptySinceMs < SAFE_MS || lease.ipamType !== undefined) continue;
      await this.#release(lease, signal).catch((thrown: unknown) => {
        const { message: cause } = SeineError.from(thrown, 'release');
        if (!signal.aborted)
          this.#options.log.failing(`gone pod ${podName(lease)}`, 'the addresses of a pod that is gone are not given up yet', { cause });
      });
    }
  }

  #compare(): Map<number, Suspect> {
    const { leases, pods, hasSandbox } = this.#options;
    const nowMs = this.#nowMs();
    const suspects = new Map<number, Suspect>();
    for (const lease of leases().filter(isAttached)) {
      if (lease.state !== 'allocated' || pods.wordOf(lease.pod) !== 'gone') continue;
      const known = this.#suspects.get(lease.serial);
      const emptySinceMs = hasSandbox(lease) ? undefined : (known?.emptySinceMs ?? nowMs);
      suspects.set(lease.serial, { lease, sinceMs: known?.sinceMs ?? nowMs, emptySinceMs });
    }
    return suspects;
  }

  /** The API server is asked itself: the copy may have missed the pod's coming. */
  async #release(lease: AttachedLease, signal: AbortSignal): Promise<void> {
    const { pods, hasSandbox, isInStep, abandon, log } = this.#options;
    const pod: PodIdentity | undefined = lease.pod;
    if (pod === undefined || !(await pods.isGoneNow(pod, signal))) return;
    if (!isInStep() || hasSandbox(lease)) return;
    await abandon(lease, signal);
    this.#released++;
    this.#suspects.delete(lease.serial);
    log.warn('a pod is gone and its DEL has not come; its addresses are given up', { pod: podName(lease), container: lease.containerId });
  }
}

function reasonToKeep({ ipamType, netns, attached }: AttachedLease, emptySinceMs: number | undefined): string {
  if (emptySinceMs === undefined) return `its namespace ${netns} or its interface ${attached.hostIfName} is still there`;
  if (ipamType !== undefined) return `its addresses are lent by ${ipamType}, which only a DEL or GC of the runtime can call`;
  return `nothing of it is left on the node; its DEL is waited for, ${SAFE_MS / 1_000} s in all`;
}
