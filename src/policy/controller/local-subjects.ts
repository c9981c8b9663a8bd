import type { Ip } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';

/** Attachment of this node, as policy sees it. */
export interface LocalSubject {
  /** Owner of its flows in the entry tables. */
  readonly owner: Owner;
  readonly ofPort: number;
  readonly addresses: readonly Ip[];
  /** Pod of the attachment; absent if it is not a pod of the cluster. No policy applies to such an attachment. */
  readonly pod?: PodIdentity;
}

/** Data of a pod of this node in the API server. */
export type LocalPodFacts = Pick<PolicyPod, 'labels' | 'ports' | 'createdAt'>;

/** Attachments of this node by owner and by pod. */
export class LocalSubjects {
  readonly #byOwner = new Map<Owner, LocalSubject>();
  readonly #byPod = new Map<string, Set<LocalSubject>>();
  /** UID of the pod that has the name now, for names with more than one attachment or with a known pod. */
  readonly #currentUid = new Map<string, string>();

  add(subject: LocalSubject): void {
    this.remove(subject.owner);
    this.#byOwner.set(subject.owner, subject);
    const key = podKeyOf(subject);
    if (key === undefined) return;
    const ofPod = this.#byPod.get(key) ?? new Set();
    this.#byPod.set(key, ofPod.add(subject));
  }

  remove(owner: Owner): LocalSubject | undefined {
    const subject = this.#byOwner.get(owner);
    if (!subject) return undefined;
    this.#byOwner.delete(owner);
    const key = podKeyOf(subject);
    const ofPod = key === undefined ? undefined : this.#byPod.get(key);
    ofPod?.delete(subject);
    if (key !== undefined && ofPod?.size === 0) {
      this.#byPod.delete(key);
      this.#currentUid.delete(key);
    }
    return subject;
  }

  /**
   * Determines which attachments under a name belong to the pod that has the name now: the newest one that `factsOf` knows. A pod that was
   * deleted by force and created again has the name of its predecessor, whose sandbox may outlive the pod; their UIDs differ.
   *
   * @returns the facts about that pod; undefined if none of them is known
   */
  identify(key: string, factsOf: (pod: PodIdentity) => LocalPodFacts | undefined): LocalPodFacts | undefined {
    for (const { pod } of [...this.ofPod(key)].reverse()) {
      const facts = pod && factsOf(pod);
      if (!facts) continue;
      this.#currentUid.set(key, pod.uid);
      return facts;
    }
    this.#currentUid.delete(key);
    return undefined;
  }

  /** Reports whether the pod that has the name now is known and attached here. @param pod `namespace/name` */
  hasCurrent(pod: string): boolean {
    return this.#currentUid.has(pod);
  }

  /** Reports whether the attachment belongs to the pod that has its name now; false if that pod is not known. */
  isCurrent(subject: Pick<LocalSubject, 'pod'>): boolean {
    const key = podKeyOf(subject);
    return key !== undefined && subject.pod !== undefined && this.#currentUid.get(key) === subject.pod.uid;
  }

  /** Attachments of the pod that has the name now; all attachments under the name if that pod is not known. @param pod `namespace/name` */
  currentOf(pod: string): readonly LocalSubject[] {
    const all = [...this.ofPod(pod)];
    return this.hasCurrent(pod) ? all.filter((subject) => this.isCurrent(subject)) : all;
  }

  /** All attachments of pods, except those of predecessors whose name another pod has now. */
  withoutPredecessors(): readonly LocalSubject[] {
    return [...this.pods()].flatMap((pod) => this.currentOf(pod));
  }

  has(pod: string): boolean {
    return this.#byPod.has(pod);
  }

  /** Attachments under a name. @param pod `namespace/name` */
  ofPod(pod: string): Iterable<LocalSubject> {
    return this.#byPod.get(pod) ?? [];
  }

  pods(): Iterable<string> {
    return this.#byPod.keys();
  }

  all(): Iterable<LocalSubject> {
    return this.#byOwner.values();
  }

  /** Returns `namespace/name` of the pod with this OpenFlow port; undefined if no pod has it. */
  podAt(ofPort: number): string | undefined {
    for (const subject of this.all()) if (subject.ofPort === ofPort) return podKeyOf(subject);
    return undefined;
  }

  /**
   * Describes a pod to the engine, with its addresses from the journal. The API server reports addresses later, and they may belong to a
   * deleted sandbox whose address another pod has got since.
   */
  policyPod(key: string, nodeName: string, { labels, ports, createdAt }: LocalPodFacts): PolicyPod {
    const [namespace = '', name = ''] = key.split('/');
    const podIps = this.currentOf(key).flatMap(({ addresses }) => addresses.map(({ text }) => text));
    return { namespace, name, nodeName, podIps, labels, ports, ...(createdAt === undefined ? {} : { createdAt }) };
  }
}

/** Returns `namespace/name` of an attachment's pod; undefined if it is not a pod of the cluster. */
export function podKeyOf({ pod }: Pick<LocalSubject, 'pod'>): string | undefined {
  return pod && `${pod.namespace}/${pod.name}`;
}
