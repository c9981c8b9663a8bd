import type { ReachObjects } from '../reach/objects.ts';
import type { NetworkPolicyObject, PodObject, PolicyPeerObject } from '../verify/reference/objects.ts';
import { matches } from '../verify/reference/parties.ts';

/** Policy with the objects that its checks read. */
export interface CheckedPolicy {
  readonly policy: NetworkPolicyObject;
  readonly objects: ReachObjects;
  /** Pods that policies can apply to, by namespace. */
  readonly pods: ReadonlyMap<string, readonly PodObject[]>;
}

/** Returns the pods that a policy selects. */
export function subjectsOf({ policy, pods }: CheckedPolicy): readonly PodObject[] {
  const own = pods.get(policy.metadata.namespace) ?? [];
  return own.filter(({ metadata }) => matches(policy.spec.podSelector, metadata.labels ?? {}));
}

/** Returns the pods that a peer selects; none for a network. */
export function podsOfPeer(
  { policy, objects, pods }: CheckedPolicy,
  { podSelector, namespaceSelector, ipBlock }: PolicyPeerObject,
): readonly PodObject[] {
  if (ipBlock) return [];
  const namespaces = namespaceSelector
    ? objects.namespaces.filter(({ metadata }) => matches(namespaceSelector, metadata.labels ?? {})).map(({ metadata }) => metadata.name)
    : [policy.metadata.namespace];
  return namespaces.flatMap((name) => (pods.get(name) ?? []).filter(({ metadata }) => matches(podSelector ?? {}, metadata.labels ?? {})));
}
