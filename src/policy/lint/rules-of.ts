import type { NetworkPolicyObject, PolicyPeerObject, PolicyRuleObject } from '../verify/reference/objects.ts';

/** Rule of a policy with its field. */
export interface PlacedRule {
  readonly direction: 'ingress' | 'egress';
  /** `spec.ingress[0]`. */
  readonly field: string;
  readonly rule: PolicyRuleObject;
  readonly peers: readonly PlacedPeer[];
}

interface PlacedPeer {
  /** `spec.ingress[0].from[1]`. */
  readonly field: string;
  readonly peer: PolicyPeerObject;
}

/** Returns the rules of the directions that a policy isolates. */
export function rulesOf({ spec }: NetworkPolicyObject): readonly PlacedRule[] {
  const types = typesOf(spec);
  return (['ingress', 'egress'] as const)
    .filter((direction) => types.includes(direction))
    .flatMap((direction) =>
      (spec[direction] ?? []).map((rule, at) => {
        const field = `spec.${direction}[${at}]`;
        const side = direction === 'ingress' ? 'from' : 'to';
        const peers = (rule[side] ?? []).map((peer, index) => ({ field: `${field}.${side}[${index}]`, peer }));
        return { direction, field, rule, peers };
      }),
    );
}

/** Returns the directions that a policy isolates, by the API's default where `policyTypes` is absent. */
export function typesOf({ policyTypes, egress }: NetworkPolicyObject['spec']): readonly string[] {
  if (policyTypes && policyTypes.length > 0) return policyTypes.map((type) => type.toLowerCase());
  return egress && egress.length > 0 ? ['ingress', 'egress'] : ['ingress'];
}
