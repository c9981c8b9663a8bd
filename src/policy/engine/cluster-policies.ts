import type { Steps } from '../../base/async/steps.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { ClusterTier } from '../matrix/matrix.ts';
import { appliesTo, byPrecedence, type ClusterIntent, clusterIntent, clusterMentionedNames, mayApplyTo } from './cluster-intent.ts';
import type { NamespaceLabels, PodKinds } from './kinds.ts';

interface KnownClusterPolicy {
  readonly policy: ClusterNetworkPolicy;
  readonly intent: ClusterIntent;
}

/** All ClusterNetworkPolicies, and which of them apply to a pod. */
export class ClusterPolicies {
  readonly #namespaces: NamespaceLabels;
  readonly #kinds: PodKinds;
  readonly #policies = new Map<string, KnownClusterPolicy>();
  /** Policies in the order in which they are evaluated; undefined after a change. */
  #ordered: readonly ClusterIntent[] | undefined;

  constructor(namespaces: NamespaceLabels, kinds: PodKinds) {
    this.#namespaces = namespaces;
    this.#kinds = kinds;
  }

  get size(): number {
    return this.#policies.size;
  }

  put(policy: ClusterNetworkPolicy): ClusterIntent {
    const intent = clusterIntent(policy);
    this.#policies.set(policy.name, { policy, intent });
    this.#kinds.mention(clusterMentionedNames(policy), 1);
    this.#ordered = undefined;
    return intent;
  }

  /** Removes a policy. @returns its intent; undefined if it is not known */
  remove(name: string): ClusterIntent | undefined {
    const known = this.#policies.get(name);
    if (!known) return undefined;
    this.#policies.delete(name);
    this.#kinds.mention(clusterMentionedNames(known.policy), -1);
    this.#ordered = undefined;
    return known.intent;
  }

  /** Reports whether a policy may apply to pods of a namespace. */
  mayApplyIn(namespace: string): boolean {
    const labels = this.#namespaces.get(namespace);
    return this.#inOrder().some((intent) => mayApplyTo(intent, labels));
  }

  appliesTo(intent: ClusterIntent, { namespace, labels }: Pick<PolicyPod, 'namespace' | 'labels'>): boolean {
    return appliesTo(intent, this.#namespaces.get(namespace), labels);
  }

  /** Returns the policies of each tier that apply to a pod, in their order. */
  *of(pod: PolicyPod): Steps<Readonly<Record<ClusterTier, readonly ClusterIntent[]>>> {
    const found: Record<ClusterTier, ClusterIntent[]> = { admin: [], baseline: [] };
    for (const intent of this.#inOrder()) {
      if (this.appliesTo(intent, pod)) found[intent.tier].push(intent);
      yield;
    }
    return found;
  }

  #inOrder(): readonly ClusterIntent[] {
    this.#ordered ??= [...this.#policies.values()].map(({ intent }) => intent).sort(byPrecedence);
    return this.#ordered;
  }
}
