import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import { objectKey } from '../../kubernetes/client/resource.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import type { PodIdentity } from '../ipam/attachment.ts';
import type { Lease } from '../ipam/lease.ts';

interface NodePodsOptions {
  /** The Pods of this node. */
  readonly replica: Replica<Pod>;
  /** Asks the API server itself. Undefined if there is none of that name. @throws SeineError if it does not answer */
  readonly fetch: (namespace: string, name: string, signal: AbortSignal) => Promise<Pod | undefined>;
  /** How long a watch that is behind is waited for (ms). */
  readonly watchPatienceMs?: number;
  /** How long the API server may take to answer (ms). */
  readonly fetchPatienceMs?: number;
}

/** A watch is some milliseconds behind; kubelet's and ours race. */
const WATCH_PATIENCE_MS = 300;
const FETCH_PATIENCE_MS = 1_500;
/** Pods that are remembered besides those of the watch; it is behind by a moment only. */
const ASKED_MAX = 64;
/** kubelet names a static pod by a hash of its file (MD5); the API server gives UIDs with dashes. */
const staticUid = /^[0-9a-f]{32}$/;

/**
 * What the API server says of a pod:
 *
 * - `living`   it has it, and the pod has not ended
 * - `gone`     it has no such pod, or one of that name that is another, or the pod has ended
 * - `unknown`  nothing that counts: the pod is none of the API server's
 */
export type PodWord = 'living' | 'gone' | 'unknown';

/** For the CNI server. */
export type PodLookup = Pick<NodePods, 'expect'>;

/** What the API server says of the pods of this node: whether a pod that is to be attached exists, and which addresses are spoken for. */
export class NodePods {
  readonly #options: NodePodsOptions;
  /** What the watch did not show when it was asked for, the oldest first. */
  readonly #asked = new Map<string, Pod>();
  /** Addresses of pods that have not ended; made when it is asked for. */
  #addresses: ReadonlySet<string> | undefined;

  constructor(options: NodePodsOptions) {
    this.#options = options;
    options.replica.subscribe(() => (this.#addresses = undefined));
  }

  /**
   * Whether this pod is one the cluster knows. A runtime that does not say the UID is not asked for more; a static pod is known
   * by the file it comes from, also before kubelet has made its mirror; and where the API server does not answer, kubelet's word
   * counts: pods start without it.
   *
   * @throws CniError 107 if the API server has another pod of that name or none, CANCELLED if `signal` comes first
   */
  async expect(pod: PodIdentity, signal: AbortSignal): Promise<void> {
    if (pod.uid === '' || (await this.#isWatched(pod, signal))) return;
    const found = await this.#fetched(pod, signal);
    if (found !== 'no answer' && found) this.#remember(found);
    if (found === 'no answer' || (found && isSame(found, pod)) || staticUid.test(pod.uid)) return;
    const name = JSON.stringify(objectKey(pod.namespace, pod.name));
    const uid = `K8S_POD_UID: ${JSON.stringify(pod.uid)}`;
    if (found)
      throw new CniError(cniCodes.unknownPod, `CNI_ARGS: ${uid}: the pod ${name} of the API server has UID ${JSON.stringify(found.uid)}`);
    throw new CniError(cniCodes.unknownPod, `CNI_ARGS: ${uid}: the API server has no pod ${name}`);
  }

  /** What is known of a pod of this node, by the watch or by what was asked when it began. Undefined: nothing of this very pod. */
  known(pod: PodIdentity): Pod | undefined {
    const key = objectKey(pod.namespace, pod.name);
    const isIt = (found: Pod | undefined): found is Pod =>
      found !== undefined && (pod.uid === '' || isSame(found, pod) || staticUid.test(pod.uid));
    return [this.#options.replica.get(key), this.#asked.get(key)].find(isIt);
  }

  /** True if a pod that has not ended is believed to have one of the addresses, or if no list of pods has come yet. */
  isClaimedByApi({ addresses }: Pick<Lease, 'addresses'>): boolean {
    const { replica } = this.#options;
    if (!replica.synced && replica.size === 0) return true;
    const claimed = (this.#addresses ??= addressesOf(replica));
    return addresses.some(({ ip }) => claimed.has(ip.text));
  }

  /** As the copy has it, which may be behind. */
  wordOf(pod: PodIdentity | undefined): PodWord {
    // A static pod is kubelet's own; its mirror may be deleted and come again while it runs.
    if (pod === undefined || staticUid.test(pod.uid)) return 'unknown';
    return wordFor(this.#options.replica.get(objectKey(pod.namespace, pod.name)), pod);
  }

  /** As the API server has it now. False if it does not answer. @throws SeineError `CANCELLED`, `INVARIANT` */
  async isGoneNow(pod: PodIdentity, signal: AbortSignal): Promise<boolean> {
    const found = await this.#fetched(pod, signal);
    return found !== 'no answer' && wordFor(found, pod) === 'gone';
  }

  /** Waits a little for the watch to show it. */
  async #isWatched(pod: PodIdentity, signal: AbortSignal): Promise<boolean> {
    const { replica, watchPatienceMs = WATCH_PATIENCE_MS } = this.#options;
    const isThere = (): boolean => {
      const known = replica.get(objectKey(pod.namespace, pod.name));
      return known !== undefined && isSame(known, pod);
    };
    if (isThere()) return true;
    return await new Promise<boolean>((resolve) => {
      const finish = (found: boolean): void => {
        end();
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        resolve(found);
      };
      const onAbort = (): void => finish(false);
      const end = replica.subscribe(() => isThere() && finish(true));
      const timer = setTimeout(() => finish(false), watchPatienceMs);
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
  }

  #remember(pod: Pod): void {
    const key = objectKey(pod.namespace, pod.name);
    this.#asked.delete(key);
    this.#asked.set(key, pod);
    for (const oldest of this.#asked.keys()) {
      if (this.#asked.size <= ASKED_MAX) break;
      this.#asked.delete(oldest);
    }
  }

  async #fetched({ namespace, name }: PodIdentity, signal: AbortSignal): Promise<Pod | undefined | 'no answer'> {
    const { fetch, fetchPatienceMs = FETCH_PATIENCE_MS } = this.#options;
    try {
      return await fetch(namespace, name, within(signal, fetchPatienceMs));
    } catch (thrown) {
      if (signal.aborted) throw new SeineError('CANCELLED', 'look for a pod', { cause: thrown });
      const error = SeineError.from(thrown, 'look for a pod');
      if (error.code === 'INVARIANT') throw error;
      return 'no answer';
    }
  }
}

/** Where the runtime does not say the UID, any pod of that name will do. */
function wordFor(known: Pod | undefined, pod: PodIdentity): PodWord {
  if (known?.configHash !== undefined) return 'unknown';
  if (known === undefined || hasEnded(known)) return 'gone';
  return pod.uid === '' || isSame(known, pod) ? 'living' : 'gone';
}

function hasEnded({ phase }: Pod): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

function isSame(known: Pod, { uid }: PodIdentity): boolean {
  return known.uid === uid || known.configHash === uid;
}

function addressesOf(replica: Replica<Pod>): ReadonlySet<string> {
  const addresses = new Set<string>();
  for (const [, pod] of replica.entries()) if (!pod.hostNetwork && !hasEnded(pod)) for (const ip of pod.podIps) addresses.add(ip);
  return addresses;
}
