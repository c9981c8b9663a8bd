import type { NetworkPolicyObject, PolicyRuleObject } from '../reference/objects.ts';

/** Peer that matches no address by the API's definition. */
const matchesNothing = {};

/**
 * Removes the networks of rules that a node reports as left out. A rule without other peers gets one that matches nothing, because an empty
 * list of peers would match everything.
 *
 * @param rules `namespace/name spec.ingress[2]`
 */
export function withoutNetworks(policies: readonly NetworkPolicyObject[], rules: ReadonlySet<string>): readonly NetworkPolicyObject[] {
  if (rules.size === 0) return policies;
  return policies.map((policy): NetworkPolicyObject => {
    const narrowed = (direction: 'ingress' | 'egress') =>
      policy.spec[direction]?.map((rule, at) =>
        rules.has(`${policy.metadata.namespace}/${policy.metadata.name} spec.${direction}[${at}]`) ? withoutBlocks(rule) : rule,
      );
    const [ingress, egress] = [narrowed('ingress'), narrowed('egress')];
    return { ...policy, spec: { ...policy.spec, ...(ingress && { ingress }), ...(egress && { egress }) } };
  });
}

function withoutBlocks({ from, to, ...rest }: PolicyRuleObject): PolicyRuleObject {
  const others = (peers: NonNullable<PolicyRuleObject['from']>) => [...peers.filter(({ ipBlock }) => !ipBlock), matchesNothing];
  return { ...rest, ...(from && { from: others(from) }), ...(to && { to: others(to) }) };
}
