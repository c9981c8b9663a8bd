import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { type AttachedLease, isAttached } from '../ipam/attached-lease.ts';
import type { PodIdentity } from '../ipam/attachment.ts';
import { type Lease, podName } from '../ipam/lease.ts';
import type { NodePods } from './node-pods.ts';

/** Period of the comparison of leases with the Pods of the node (ms). */
export const leaseCheckEveryMs = 5_000;
/**
 * Time for which a pod must be gone from the API server, and its namespace and interface from the node, before its addresses are released
 * without a DEL (ms). Runtimes send the DEL within seconds; a later one finds nothing to do.
 */
const SAFE_MS = 30_000;
/** Time after which a running pod that the API server does not have is reported (ms): kubelet normally ends such a pod itself. */
const RUNNING_REPORT_AFTER_MS = 60_000;

interface OrphanedLeasesOptions {
  readonly leases: () => readonly Lease[];
  readonly pods: Pick<NodePods, 'apiStateOf' | 'isGoneNow'>;
  /** Reports whether the local copy of Pods is synced with the API server. */
  readonly isSynced: () => boolean;
  /** Reports whether anything of the pod's sandbox is left on the node: its namespace, or its host interface. */
  readonly hasSandbox: (lease: AttachedLease) => boolean;
  /** Does the work of a DEL. */
  readonly abandon: (lease: Lease, signal: AbortSignal) => Promise<void>;
  readonly log: Log;
  readonly nowMs?: () => number;
}

/** Pod with a lease that the API server does not have. */
interface Suspect {
  readonly lease: AttachedLease;
  /** Time since which this was seen without interruption. */
  readonly sinceMs: number;
  /** Time since which its sandbox is gone too; undefined while any part of it exists. */
  readonly emptySinceMs: number | undefined;
}

/** Pod whose addresses are kept although the API server does not have it, for the status. */
interface UnreleasedPod {
  readonly pod: string;
  readonly why: string;
}

/**
 * Finds leases whose pod is gone and whose DEL never arrived, because the runtime lost its data or a container was removed manually. A
 * lease is released only if API server and kernel agree for some time and a final request to the API server confirms it.
 *
 * Never released: pods outside a cluster (podman, `ctr`), static pods, and addresses of another plugin, which needs the configuration of a
 * DEL to release them.
 */
export class OrphanedLeases {
  readonly #options: OrphanedLeasesOptions;
  readonly #nowMs: () => number;
  /** Suspects by serial of their lease. */
  #suspects = new Map<number, Suspect>();
  #released = 0;

  constructor(options: OrphanedLeasesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Number of pods released without a DEL. */
  get released(): number {
    return this.#released;
  }

  /** Pods that the API server does not have and that keep their addresses, with the reason. */
  get kept(): readonly UnreleasedPod[] {
    const nowMs = this.#nowMs();
    return [...this.#suspects.values()].flatMap(({ lease, sinceMs, emptySinceMs }) => {
      if (emptySinceMs === undefined && nowMs - sinceMs < RUNNING_REPORT_AFTER_MS) return [];
      return [{ pod: podName(lease), why: reasonToKeep(lease, emptySinceMs) }];
    });
  }

  /** Compares once, and releases confirmed leases. If a release fails, it is tried again later; the others are not delayed. */
  async look(signal: AbortSignal): Promise<void> {
    this.#suspects = this.#options.isSynced() ? this.#compare() : new Map();
    for (const { lease, emptySinceMs } of this.#suspects.values()) {
      if (emptySinceMs === undefined || this.#nowMs() - emptySinceMs < SAFE_MS || lease.ipamType !== undefined) continue;
      await this.#release(lease, signal).catch((thrown: unknown) => {
        const { message: cause } = SeineError.from(thrown, 'release');
        if (!signal.aborted)
          this.#options.log.failing(`orphaned pod ${podName(lease)}`, 'the addresses of an orphaned pod could not be released yet', {
            cause,
          });
      });
    }
  }

  #compare(): Map<number, Suspect> {
    const { leases, pods, hasSandbox } = this.#options;
    const nowMs = this.#nowMs();
    const suspects = new Map<number, Suspect>();
    for (const lease of leases().filter(isAttached)) {
      if (lease.state !== 'allocated' || pods.apiStateOf(lease.pod) !== 'gone') continue;
      const known = this.#suspects.get(lease.serial);
      const emptySinceMs = hasSandbox(lease) ? undefined : (known?.emptySinceMs ?? nowMs);
      suspects.set(lease.serial, { lease, sinceMs: known?.sinceMs ?? nowMs, emptySinceMs });
    }
    return suspects;
  }

  /** Releases a lease after a request to the API server itself, because the local copy may have missed the creation of the pod. */
  async #release(lease: AttachedLease, signal: AbortSignal): Promise<void> {
    const { pods, hasSandbox, isSynced, abandon, log } = this.#options;
    const pod: PodIdentity | undefined = lease.pod;
    if (pod === undefined || !(await pods.isGoneNow(pod, signal))) return;
    if (!isSynced() || hasSandbox(lease)) return;
    await abandon(lease, signal);
    this.#released++;
    this.#suspects.delete(lease.serial);
    log.warn('released the addresses of an orphaned pod without a DEL', { pod: podName(lease), container: lease.containerId });
  }
}

function reasonToKeep({ ipamType, netns, attached }: AttachedLease, emptySinceMs: number | undefined): string {
  if (emptySinceMs === undefined) return `its namespace ${netns} or its interface ${attached.hostIfName} is still there`;
  if (ipamType !== undefined) return `its addresses are allocated by ${ipamType}, which only a DEL or GC of the runtime can call`;
  return `nothing of it is left on the node; its DEL is waited for, ${SAFE_MS / 1_000} s in all`;
}
