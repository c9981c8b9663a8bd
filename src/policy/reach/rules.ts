import type { PolicyObjects } from '../verify/reference/objects.ts';
import { typesOf } from '../verify/reference/reference-verdict.ts';
import { keyOf } from './objects.ts';

/**
 * Returns the names of all rules that can decide about a connection: `namespace/name spec.ingress[2]`. Rules of a direction that is not
 * isolated have no effect.
 */
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
    const { ingress, egress } = policy.spec;
    const types = typesOf(policy);
    const named = (direction: 'ingress' | 'egress', rules: readonly unknown[]) =>
      rules.map((_, at) => `${keyOf(policy)} spec.${direction}[${at}]`);
    return [
      ...(types.includes('ingress') ? named('ingress', ingress ?? []) : []),
      ...(types.includes('egress') ? named('egress', egress ?? []) : []),
    ];
  });
  return [...ofTiers, ...ofPolicies];
}
