import { policyDirections } from '../matrix/matrix.ts';
import { keyOf, type ReachObjects } from '../reach/objects.ts';
import { Reach } from '../reach/reach.ts';
import type { ClusterNetworkPolicyObject, NetworkPolicyObject } from '../verify/reference/objects.ts';
import type { LintFinding } from './findings.ts';

const ROWS_MAX = 1_000;
/** Entries below which a policy needs no count: each takes time like an analysis of the whole cluster. */
const ENTRIES_COUNTED = 100;

/** P13: policies that alone need more than 1,000 rows in a direction, on a node that has pods of every kind. */
export function rowFindings(objects: ReachObjects): readonly LintFinding[] {
  const none = { ...objects, networkPolicies: [], clusterNetworkPolicies: [], services: [] };
  const ofNamespaces = objects.networkPolicies
    .filter((policy) => entriesOf(policy) >= ENTRIES_COUNTED)
    .map((policy) => ({ name: keyOf(policy), alone: { ...none, networkPolicies: [policy] } }));
  const ofCluster = (objects.clusterNetworkPolicies ?? [])
    .filter((policy) => entriesOf(policy) >= ENTRIES_COUNTED)
    .map((policy) => ({ name: policy.metadata.name, alone: { ...none, clusterNetworkPolicies: [policy] } }));
  return [...ofNamespaces, ...ofCluster].flatMap(({ name, alone }) => {
    const reach = new Reach(alone);
    return policyDirections.flatMap((direction): readonly LintFinding[] => {
      const rows = reach.rowCount(direction);
      if (rows <= ROWS_MAX) return [];
      const message = `It needs ${rows} rows on a node with all of its pods. Join networks, or select pods by labels of their namespace.`;
      return [{ code: 'P13', level: 'warning', policy: name, field: `spec.${direction}`, message }];
    });
  });
}

function entriesOf({ spec }: NetworkPolicyObject | ClusterNetworkPolicyObject): number {
  const rules = [...(spec.ingress ?? []), ...(spec.egress ?? [])];
  return rules
    .flatMap((rule) => [...(rule.from ?? []), ...(rule.to ?? [])])
    .reduce(
      (sum, peer) =>
        sum + 1 + ('networks' in peer ? (peer.networks?.length ?? 0) : 'ipBlock' in peer ? (peer.ipBlock?.except?.length ?? 0) : 0),
      0,
    );
}
