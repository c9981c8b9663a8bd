import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { isPoliced, keyOf, type ReachObjects } from '../reach/objects.ts';
import type { NetworkPolicyObject } from '../verify/reference/objects.ts';
import { clusterFaultFindings, clusterSelectorFindings } from './cluster-policies.ts';
import { coveredRuleFindings } from './covered-rules.ts';
import { dnsFindings } from './dns.ts';
import { domainNameFindings } from './domain-names.ts';
import { LintedEnds } from './ends.ts';
import { equalPriorityFindings } from './equal-priorities.ts';
import type { LintFinding } from './findings.ts';
import type { CheckedPolicy } from './matching.ts';
import { networkFindings } from './networks.ts';
import { portNameFindings } from './port-names.ts';
import { rowFindings } from './row-counts.ts';
import { selectorFindings } from './selectors.ts';
import { voidedPolicyFindings } from './voided-policies.ts';

/** Checks policies for mistakes. Findings are in the order of the policies: NetworkPolicies, ClusterNetworkPolicies, then large ones. */
export function lint(objects: ReachObjects): readonly LintFinding[] {
  return [...namespaceFindings(objects), ...clusterFindings(objects), ...rowFindings(objects)];
}

function clusterFindings(objects: ReachObjects): readonly LintFinding[] {
  const policies = objects.clusterNetworkPolicies ?? [];
  if (policies.length === 0) return [];
  const ends = new LintedEnds(objects);
  const pods = objects.pods.filter(isPoliced);
  const ofEach = policies.flatMap((policy) => [...clusterFaultFindings(policy), ...clusterSelectorFindings(policy, pods, objects)]);
  const ofAll = [coveredRuleFindings, equalPriorityFindings, domainNameFindings, voidedPolicyFindings].flatMap((check) => check(ends));
  const order = new Map(policies.map(({ metadata }, at) => [metadata.name, at]));
  return [...ofEach, ...ofAll].toSorted((a, b) => (order.get(a.policy) ?? 0) - (order.get(b.policy) ?? 0));
}

function namespaceFindings(objects: ReachObjects): readonly LintFinding[] {
  const pods = Map.groupBy(objects.pods.filter(isPoliced), ({ metadata }) => metadata.namespace);
  return objects.networkPolicies.flatMap((policy) => {
    const faults = faultFindings(policy);
    const checked: CheckedPolicy = { policy, objects, pods };
    return [
      ...faults,
      ...typeFindings(policy),
      ...[selectorFindings, dnsFindings, portNameFindings, networkFindings].flatMap((check) => (faults.length > 0 ? [] : check(checked))),
    ];
  });
}

/** P12: fields that the agents cannot use. Such a part allows nothing. */
function faultFindings(policy: NetworkPolicyObject): readonly LintFinding[] {
  const read = networkPolicies.project({ ...policy, metadata: { uid: keyOf(policy), ...policy.metadata } });
  return (read?.faults ?? []).map((fault) => ({
    code: 'P12',
    level: 'error',
    policy: keyOf(policy),
    field: fault.split(':', 1)[0] ?? '',
    message: `${fault}. This part allows nothing. Correct the field.`,
  }));
}

/** P09: directions that `policyTypes` isolates or ignores, other than the rules suggest. */
function typeFindings(policy: NetworkPolicyObject): readonly LintFinding[] {
  const { policyTypes, ingress, egress } = policy.spec;
  const types = policyTypes ?? [];
  const has = { ingress: (ingress ?? []).length > 0, egress: (egress ?? []).length > 0 };
  const finding = (level: LintFinding['level'], field: string, message: string): readonly LintFinding[] => [
    { code: 'P09', level, policy: keyOf(policy), field, message },
  ];
  if (types.length > 0 && has.egress && !types.includes('Egress'))
    return finding('error', 'spec.egress', 'The egress rules have no effect: policyTypes has no Egress. Add it, or remove the rules.');
  if (types.length > 0 && has.ingress && !types.includes('Ingress'))
    return finding('error', 'spec.ingress', 'The ingress rules have no effect: policyTypes has no Ingress. Add it, or remove the rules.');
  if (types.length === 0 && has.egress && !has.ingress)
    return finding(
      'warning',
      'spec.policyTypes',
      'Without policyTypes the policy isolates its pods for ingress too, and allows none. Set policyTypes: [Egress] if only egress is meant.',
    );
  return [];
}
