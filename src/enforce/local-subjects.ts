import type { PodIdentity } from '../ipam/attachment.ts';
import type { PolicyPod } from '../kube/policy-pod.ts';
import type { Ip } from '../net/ip.ts';
import type { Owner } from '../pipeline/cookie.ts';

/** One attachment of this node, as policy has to know it. */
export interface LocalSubject {
  /** Of its flows in the entry tables. */
  readonly owner: Owner;
  readonly ofPort: number;
  readonly addresses: readonly Ip[];
  /** Absent for what is no pod of the cluster, which no policy concerns. */
  readonly pod?: PodIdentity;
}

/** What the API server says of a pod of this node. */
export type LocalPodFacts = Pick<PolicyPod, 'labels' | 'ports' | 'createdAt'>;

/** The attachments of this node by owner, and by the pod that they belong to. */
export class LocalSubjects {
  readonly #byOwner = new Map<Owner, LocalSubject>();
  readonly #byPod = new Map<string, Set<LocalSubject>>();

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
    if (key !== undefined && ofPod?.size === 0) this.#byPod.delete(key);
    return subject;
  }

  has(pod: string): boolean {
    return this.#byPod.has(pod);
  }

  /** @param pod `namespace/name` */
  ofPod(pod: string): Iterable<LocalSubject> {
    return this.#byPod.get(pod) ?? [];
  }

  pods(): Iterable<string> {
    return this.#byPod.keys();
  }

  all(): Iterable<LocalSubject> {
    return this.#byOwner.values();
  }

  /** `namespace/name` of the pod that has this OpenFlow port; undefined if none has. */
  podAt(ofPort: number): string | undefined {
    for (const subject of this.all()) if (subject.ofPort === ofPort) return podKeyOf(subject);
    return undefined;
  }

  /**
   * A pod as the engine has to know it: with what the journal says of its addresses. What the API server says of them comes later, and
   * may be of a sandbox that is gone, whose address another pod has by now.
   */
  policyPod(key: string, nodeName: string, { labels, ports, createdAt }: LocalPodFacts): PolicyPod {
    const [namespace = '', name = ''] = key.split('/');
    const podIps = [...this.ofPod(key)].flatMap(({ addresses }) => addresses.map(({ text }) => text));
    return { namespace, name, nodeName, podIps, labels, ports, ...(createdAt === undefined ? {} : { createdAt }) };
  }
}

/** `namespace/name`; undefined for what is no pod of the cluster. */
export function podKeyOf({ pod }: Pick<LocalSubject, 'pod'>): string | undefined {
  return pod && `${pod.namespace}/${pod.name}`;
}
