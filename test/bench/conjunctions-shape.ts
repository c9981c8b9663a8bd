import type { PolicyPod } from '../../src/kubernetes/resources/policy-pod.ts';
import type { largeNode } from '../support/large-policy-node.ts';

type LargeNode = ReturnType<typeof largeNode>;
type Rule = NonNullable<LargeNode['policies'][number]['ingress']>[number];

/** Tables of a direction's clauses, and the end of the packet that is the peer. */
const directions = {
  ingress: { table: 24, verdict: 25, peer: 'nw_src', own: 'nw_dst' },
  egress: { table: 14, verdict: 15, peer: 'nw_dst', own: 'nw_src' },
} as const;

/**
 * Policies of a node as conjunctions over addresses, as Antrea writes them: an address, a pod and a port are each a clause of every rule
 * that names them, one flow for all rules; a rule is one more flow, and so is the isolation of a pod. Source: Antrea's
 * docs/design/ovs-pipeline.md, "IngressRule".
 */
export function conjunctionsShaped({ pods, policies }: Pick<LargeNode, 'pods' | 'policies'>, nodeName: string): readonly string[] {
  const clauses = new Map<string, string[]>();
  const flows: string[] = [];
  let id = 0;
  const clause = (match: string, action: string): void => void clauses.set(match, [...(clauses.get(match) ?? []), action]);
  for (const policy of policies) {
    const local = pods.filter((pod) => pod.nodeName === nodeName && pod.namespace === policy.namespace);
    for (const [name, { table, verdict, peer, own }] of Object.entries(directions)) {
      for (const rule of policy[name as keyof typeof directions] ?? []) {
        const ports = rule.ports === 'any' ? [] : rule.ports;
        const total = ports.length > 0 ? 3 : 2;
        id++;
        for (const { podIps } of peersOf(rule, policy.namespace, pods))
          clause(`table=${table},priority=200,ip,${peer}=${podIps[0]}`, `conjunction(${id},1/${total})`);
        for (const { podIps } of local) clause(`table=${table},priority=200,ip,${own}=${podIps[0]}`, `conjunction(${id},2/${total})`);
        for (const { protocol, port } of ports)
          clause(`table=${table},priority=200,${protocol.toLowerCase()},tp_dst=${port}`, `conjunction(${id},3/3)`);
        flows.push(`table=${table},priority=190,ip,conj_id=${id},actions=set_field:${id}->reg5,goto_table:${verdict + 1}`);
      }
      for (const { podIps } of local) flows.push(`table=${verdict},priority=200,ip,${own}=${podIps[0]},actions=drop`);
    }
  }
  return [...[...clauses].map(([match, actions]) => `${match},actions=${actions.join()}`), ...flows];
}

/** Peers of rules by labels of namespaces and of pods, like those of this node. */
function peersOf({ peers }: Rule, namespace: string, pods: readonly PolicyPod[]): readonly PolicyPod[] {
  if (peers === 'any') return pods;
  return pods.filter((pod) =>
    peers.some((peer) => {
      if ('cidr' in peer) return false;
      const names = peer.namespaces?.flatMap(({ values }) => values) ?? [namespace];
      return names.includes(pod.namespace) && peer.pods.every(({ key, values }) => values.includes(pod.labels[key] ?? ''));
    }),
  );
}
