import type { LabelSelectorObject, PodObject, PolicyObjects } from '../verify/reference/objects.ts';
import { isPoliced, keyOf } from './objects.ts';

/** Pods of one namespace to which the same rules apply, because no policy distinguishes them. */
export interface PodGroup {
  readonly namespace: string;
  /** In the order of the objects; at least one. */
  readonly pods: readonly PodObject[];
}

/**
 * Divides the policed pods of a cluster. Labels that no policy mentions do not count: a label that differs for each pod, such as
 * `statefulset.kubernetes.io/pod-name`, would otherwise make each pod a group.
 */
export function podGroups(objects: Omit<PolicyObjects, 'nodes' | 'namespaces'>): readonly PodGroup[] {
  const { pods } = objects;
  const keys = labelKeysOf(objects);
  const groups = Map.groupBy(pods.filter(isPoliced), (pod) => groupText(pod, keys));
  return [...groups.values()].map((members) => ({ namespace: members[0]?.metadata.namespace ?? '', pods: members }));
}

function groupText({ metadata, spec }: PodObject, keys: readonly string[]): string {
  const labels = metadata.labels ?? {};
  const mentioned = keys.flatMap((key) => (Object.hasOwn(labels, key) ? [[key, labels[key]]] : []));
  const ports = [...spec.containers, ...(spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')].flatMap(
    (container) => (container.ports ?? []).flatMap(({ name, protocol, containerPort }) => (name ? [[name, protocol, containerPort]] : [])),
  );
  return JSON.stringify([metadata.namespace, mentioned, ports]);
}

/** Returns the label keys by which policies select pods, sorted. */
function labelKeysOf({
  networkPolicies,
  clusterNetworkPolicies = [],
}: Omit<PolicyObjects, 'nodes' | 'namespaces' | 'pods'>): readonly string[] {
  const keys = new Set<string>();
  const add = ({ matchLabels, matchExpressions }: LabelSelectorObject = {}): void => {
    for (const key of Object.keys(matchLabels ?? {})) keys.add(key);
    for (const { key } of matchExpressions ?? []) keys.add(key);
  };
  for (const { spec } of networkPolicies) {
    add(spec.podSelector);
    for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])])
      for (const { podSelector } of [...(rule.from ?? []), ...(rule.to ?? [])]) add(podSelector);
  }
  for (const { spec } of clusterNetworkPolicies) {
    add(spec.subject.pods?.podSelector);
    for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])])
      for (const { pods } of [...(rule.from ?? []), ...(rule.to ?? [])]) add(pods?.podSelector);
  }
  return [...keys].sort();
}

/** Returns the first pod of each group by the key (`namespace/name`) of each of its pods. */
export function representatives(groups: readonly PodGroup[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { pods } of groups) {
    const [first] = pods;
    if (first) for (const pod of pods) found.set(keyOf(pod), keyOf(first));
  }
  return found;
}
