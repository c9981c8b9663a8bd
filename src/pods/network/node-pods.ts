import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import { objectKey } from '../../kubernetes/client/resource.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import type { PodIdentity } from '../ipam/attachment.ts';
import type { Lease } from '../ipam/lease.ts';

interface NodePodsOptions {
  /** Pods of this node. */
  readonly replica: Replica<Pod>;
  /** Requests a Pod from the API server; undefined if there is none of that name. @throws SeineError if the API server does not answer */
  readonly fetch: (namespace: string, name: string, signal: AbortSignal) => Promise<Pod | undefined>;
  /** Maximum wait for the watch to catch up (ms). */
  readonly watchPatienceMs?: number;
  /** Maximum wait for the API server's reply (ms). */
  readonly fetchPatienceMs?: number;
}

/** Default wait for the watch (ms). It is a few milliseconds late, because kubelet's watch and ours are independent. */
const WATCH_PATIENCE_MS = 300;
const FETCH_PATIENCE_MS = 1_500;
/** Maximum number of pods stored besides those of the watch, which catches up in a moment. */
const ASKED_MAX = 64;
/** Pattern of a static pod's UID: kubelet uses a hash of its file (MD5), while the API server uses UIDs with dashes. */
const staticUid = /^[0-9a-f]{32}$/;

/**
 * State of a pod in the API server:
 *
 * - `living`   it exists and has not ended
 * - `gone`     it does not exist, another pod has its name, or it has ended
 * - `unknown`  not known: the pod is not managed by the API server
 */
export type PodWord = 'living' | 'gone' | 'unknown';

/** Pod lookup for the CNI server. */
export type PodLookup = Pick<NodePods, 'expect'>;

/** Pods of this node in the API server: whether a pod that is to be attached exists, and which addresses are in use. */
export class NodePods {
  readonly #options: NodePodsOptions;
  /** Pods fetched because the watch did not have them yet, the oldest first. */
  readonly #asked = new Map<string, Pod>();
  /** Addresses of pods that have not ended; computed on demand. */
  #addresses: ReadonlySet<string> | undefined;

  constructor(options: NodePodsOptions) {
    this.#options = options;
    options.replica.subscribe(() => (this.#addresses = undefined));
  }

  /**
   * Checks that the cluster has this pod. If the runtime does not report the UID, nothing is checked. A static pod is accepted by the hash
   * of its file, also before kubelet has created its mirror. If the API server does not answer, the pod is accepted: pods must start
   * without it.
   *
   * @throws CniError 107 if the API server has no pod or another pod of that name, CANCELLED if `signal` aborts first
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

  /** Returns the data of a pod of this node, from the watch or fetched at its start; undefined if this very pod is not known. */
  known(pod: PodIdentity): Pod | undefined {
    const key = objectKey(pod.namespace, pod.name);
    const isIt = (found: Pod | undefined): found is Pod =>
      found !== undefined && (pod.uid === '' || isSame(found, pod) || staticUid.test(pod.uid));
    return [this.#options.replica.get(key), this.#asked.get(key)].find(isIt);
  }

  /** Reports whether a pod that has not ended may have one of the addresses; also true if no list of pods has arrived yet. */
  isClaimedByApi({ addresses }: Pick<Lease, 'addresses'>): boolean {
    const { replica } = this.#options;
    if (!replica.synced && replica.size === 0) return true;
    const claimed = (this.#addresses ??= addressesOf(replica));
    return addresses.some(({ ip }) => claimed.has(ip.text));
  }

  /** Returns the state of a pod from the local copy, which may be outdated. */
  apiStateOf(pod: PodIdentity | undefined): PodWord {
    // A static pod belongs to kubelet; its mirror may be deleted and created again while it runs.
    if (pod === undefined || staticUid.test(pod.uid)) return 'unknown';
    return wordFor(this.#options.replica.get(objectKey(pod.namespace, pod.name)), pod);
  }

  /**
   * Requests the current state from the API server and reports whether the pod is gone; false if there is no reply.
   *
   * @throws SeineError `CANCELLED`, `INVARIANT`
   */
  async isGoneNow(pod: PodIdentity, signal: AbortSignal): Promise<boolean> {
    const found = await this.#fetched(pod, signal);
    return found !== 'no answer' && wordFor(found, pod) === 'gone';
  }

  /** Waits a short time for the watch to have the pod. */
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
      if (signal.aborted) throw new SeineError('CANCELLED', 'find a pod', { cause: thrown });
      const error = SeineError.from(thrown, 'find a pod');
      if (error.code === 'INVARIANT') throw error;
      return 'no answer';
    }
  }
}

/** Returns the state of a pod. If the runtime does not report the UID, any pod of that name counts. */
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
