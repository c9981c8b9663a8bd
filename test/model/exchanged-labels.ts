import fc from 'fast-check';
import type { NetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';
import { namespaceObject, nodeObject, podObject } from '../support/policy-cluster.ts';
import type { PolicyObject } from './policy-proof.ts';
import { policyPort } from './random-policies.ts';

/** Pods that exchange their labels, by any numbers. */
export type ExchangedPairs = readonly (readonly [number, number])[];

/** A namespace on one node in which all policies are about one label, and rounds in which pods exchange it. */
export interface ExchangeHistory {
  readonly objects: readonly PolicyObject[];
  readonly exchanges: readonly ExchangedPairs[];
}

const selector = fc.constantFrom('a', 'b', 'c').map((app) => ({ matchLabels: { app } }));
const rules = fc.array(
  fc.record({ peers: fc.array(selector, { minLength: 1, maxLength: 2 }), ports: fc.array(policyPort, { maxLength: 1 }) }),
  { maxLength: 2 },
);
const policy: fc.Arbitrary<Omit<NetworkPolicyObject, 'metadata'>> = fc
  .record({ podSelector: selector, ingress: fc.option(rules), egress: fc.option(rules) })
  .map(({ podSelector, ingress, egress }) => ({
    spec: {
      podSelector,
      ...(ingress && { ingress: ingress.map(({ peers, ports }) => ({ from: peers.map((each) => ({ podSelector: each })), ports })) }),
      ...(egress && { egress: egress.map(({ peers, ports }) => ({ to: peers.map((each) => ({ podSelector: each })), ports })) }),
      policyTypes: [...(ingress || !egress ? (['Ingress'] as const) : []), ...(egress ? (['Egress'] as const) : [])],
    },
  }));

export const exchangeHistories: fc.Arbitrary<ExchangeHistory> = fc
  .record({
    labels: fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 3, maxLength: 7 }),
    policies: fc.array(policy, { minLength: 1, maxLength: 4 }),
    exchanges: fc.array(fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 }),
  })
  .map(({ labels, policies, exchanges }) => ({
    objects: [
      { kind: 'Node', object: nodeObject('n1', ['10.1.0.0/24', 'fd00:1::/64'], ['192.168.0.1']) },
      { kind: 'Namespace', object: namespaceObject('red', {}) },
      ...labels.map((app, at) => ({
        kind: 'Pod' as const,
        object: podObject(`red/p${at}`, [`10.1.0.${at + 5}`, `fd00:1::${at + 5}`], { node: 'n1', labels: { app } }),
      })),
      ...policies.map((each, at) => ({
        kind: 'NetworkPolicy' as const,
        object: { metadata: { namespace: 'red', name: `n${at}` }, ...each },
      })),
    ],
    exchanges,
  }));

/**
 * Pods of one node and namespace that exchange their labels, all at one moment: one leaves the classes that another joins, and both
 * addresses change their identity for these classes. That is the case in which a class may need two answers at once.
 */
export function exchangedLabels(objects: Iterable<PolicyObject>, nodeName: string, pairs: ExchangedPairs): readonly PolicyObject[] {
  const pods = [...objects].flatMap((each) => (each.kind === 'Pod' && each.object.spec.nodeName === nodeName ? [each.object] : []));
  const changed = new Map<string, PolicyObject>();
  for (const [first, second] of pairs) {
    const one = pods[first % Math.max(1, pods.length)];
    const others = pods.filter((each) => each !== one && each.metadata.namespace === one?.metadata.namespace);
    const other = others[second % Math.max(1, others.length)];
    if (!one || !other || changed.has(keyOf(one)) || changed.has(keyOf(other))) continue;
    changed.set(keyOf(one), labelled(one, other));
    changed.set(keyOf(other), labelled(other, one));
  }
  return [...changed.values()];
}

type Pod = Extract<PolicyObject, { kind: 'Pod' }>['object'];

function keyOf({ metadata }: Pod): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function labelled(pod: Pod, { metadata }: Pod): PolicyObject {
  const { labels, ...own } = pod.metadata;
  return { kind: 'Pod', object: { ...pod, metadata: { ...own, ...(metadata.labels === undefined ? {} : { labels: metadata.labels }) } } };
}
