import type { NetworkPolicyObject, PolicyPeerObject, PolicyRuleObject } from '../verify/reference/objects.ts';
import { typesOf } from '../verify/reference/reference-verdict.ts';

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
export function rulesOf(policy: NetworkPolicyObject): readonly PlacedRule[] {
  const { spec } = policy;
  const types = typesOf(policy);
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
