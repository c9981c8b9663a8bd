import { keyOf } from '../reach/objects.ts';
import type { LintFinding } from './findings.ts';
import { type CheckedPolicy, podsOfPeer, subjectsOf } from './matching.ts';
import { type PlacedRule, rulesOf } from './rules-of.ts';

/** P03: selectors that match no pod. P06: two entries where one was probably meant. */
export function selectorFindings(checked: CheckedPolicy): readonly LintFinding[] {
  const policy = keyOf(checked.policy);
  const found: LintFinding[] = [];
  if (subjectsOf(checked).length === 0)
    found.push({
      code: 'P03',
      level: 'warning',
      policy,
      field: 'spec.podSelector',
      message: 'The policy applies to no pod of its namespace. Compare the selector with the labels of the pods.',
    });
  for (const rule of rulesOf(checked.policy)) {
    for (const { field, peer } of rule.peers)
      if (!peer.ipBlock && podsOfPeer(checked, peer).length === 0)
        found.push({
          code: 'P03',
          level: 'warning',
          policy,
          field,
          message: 'The peer matches no pod. Compare the selectors with the labels of pods and namespaces.',
        });
    found.push(...splitPeers(policy, rule));
  }
  return found;
}

function splitPeers(policy: string, { peers }: PlacedRule): readonly LintFinding[] {
  const onlyPods = peers.filter(({ peer }) => peer.podSelector && !peer.namespaceSelector);
  const onlyNamespaces = peers.filter(({ peer }) => peer.namespaceSelector && !peer.podSelector);
  const [first] = [...onlyPods, ...onlyNamespaces].sort((a, b) => (a.field < b.field ? -1 : 1));
  if (!first || onlyPods.length === 0 || onlyNamespaces.length === 0) return [];
  return [
    {
      code: 'P06',
      level: 'warning',
      policy,
      field: first.field,
      message:
        'One peer has only podSelector and another one only namespaceSelector: each matches alone, so every pod of those namespaces matches. ' +
        'Write both in one entry to match such pods in such namespaces only.',
    },
  ];
}
