import { clusterNetworkPoliciesOf } from '../../kubernetes/resources/cluster-network-policy.ts';
import { policyDirections } from '../matrix/matrix.ts';
import type { ReachObjects } from '../reach/objects.ts';
import type { ClusterNetworkPolicyObject, ClusterPodsObject, PodObject } from '../verify/reference/objects.ts';
import { matches } from '../verify/reference/parties.ts';
import type { LintFinding } from './findings.ts';

const reader = clusterNetworkPoliciesOf('v1beta1');

/** P12: fields of ClusterNetworkPolicies that the agents cannot use. Such a part fails closed. */
export function clusterFaultFindings(policy: ClusterNetworkPolicyObject): readonly LintFinding[] {
  const { name } = policy.metadata;
  const read = reader.project({ ...policy, metadata: { uid: name, ...policy.metadata } });
  return (read?.faults ?? []).map((fault) => ({
    code: 'P12',
    level: 'error',
    policy: name,
    field: fault.split(':', 1)[0] ?? '',
    message: `${fault}. This part fails closed: Accept matches nothing, Deny and Pass deny. Correct the field.`,
  }));
}

/** P03: subjects and peers of ClusterNetworkPolicies that match no pod. */
export function clusterSelectorFindings(
  policy: ClusterNetworkPolicyObject,
  pods: ReachObjects['pods'],
  objects: ReachObjects,
): readonly LintFinding[] {
  const labels = new Map(objects.namespaces.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  const selects = (selection: ClusterPodsObject): boolean => pods.some((pod) => isSelected(selection, pod, labels));
  const finding = (field: string, message: string): LintFinding => ({
    code: 'P03',
    level: 'warning',
    policy: policy.metadata.name,
    field,
    message,
  });
  const remedy = 'Compare the selectors with the labels of pods and namespaces.';
  const found = selects(policy.spec.subject) ? [] : [finding('spec.subject', `The policy applies to no pod. ${remedy}`)];
  const peers = policyDirections.flatMap((direction) =>
    (policy.spec[direction] ?? []).flatMap((rule, at) => {
      const side = direction === 'ingress' ? 'from' : 'to';
      return (rule[side] ?? []).map((peer, index) => ({ peer, field: `spec.${direction}[${at}].${side}[${index}]` }));
    }),
  );
  const ofPods = peers.filter(({ peer }) => (peer.namespaces ?? peer.pods) !== undefined);
  return [
    ...found,
    ...ofPods.filter(({ peer }) => !selects(peer)).map(({ field }) => finding(field, `The peer matches no pod. ${remedy}`)),
  ];
}

function isSelected(
  { namespaces, pods }: ClusterPodsObject,
  { metadata }: PodObject,
  labels: ReadonlyMap<string, Readonly<Record<string, string>>>,
): boolean {
  const ofNamespace = labels.get(metadata.namespace) ?? {};
  if (namespaces) return matches(namespaces, ofNamespace);
  return pods !== undefined && matches(pods.namespaceSelector, ofNamespace) && matches(pods.podSelector, metadata.labels ?? {});
}
