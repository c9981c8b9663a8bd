import type { PolicyObjects } from '../verify/reference/objects.ts';
import { keyOf } from './objects.ts';

/** Returns the names of all rules that can decide about a connection: `namespace/name spec.ingress[2]`. Rules of a direction that is not isolated have no effect. */
export function rulesOfPolicies({
  networkPolicies,
  clusterNetworkPolicies = [],
}: Pick<PolicyObjects, 'networkPolicies' | 'clusterNetworkPolicies'>): readonly string[] {
  const ofTiers = clusterNetworkPolicies.flatMap(({ metadata, spec }) =>
    (['ingress', 'egress'] as const).flatMap((direction) =>
      (spec[direction] ?? []).map((_, at) => `${metadata.name} spec.${direction}[${at}]`),
    ),
  );
  const ofPolicies = networkPolicies.flatMap((policy) => {
    const { policyTypes, ingress, egress } = policy.spec;
    const types = policyTypes && policyTypes.length > 0 ? policyTypes : ['Ingress', ...(egress && egress.length > 0 ? ['Egress'] : [])];
    const named = (direction: 'ingress' | 'egress', rules: readonly unknown[]) =>
      rules.map((_, at) => `${keyOf(policy)} spec.${direction}[${at}]`);
    return [
      ...(types.includes('Ingress') ? named('ingress', ingress ?? []) : []),
      ...(types.includes('Egress') ? named('egress', egress ?? []) : []),
    ];
  });
  return [...ofTiers, ...ofPolicies];
}
