import type { NetworkPolicy } from '../../src/kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../src/kubernetes/resources/policy-pod.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';

/** Input of a node's policy, and its engine. */
interface LargePolicyNode {
  readonly engine: PolicyEngine;
  readonly pods: readonly PolicyPod[];
  readonly policies: readonly NetworkPolicy[];
}

const namespaceCount = 60;
const podsOfNamespace = 100;

/** 110 pods on node `n0`, in 60 namespaces of 100 pods each: nothing but the own namespace, ingress controllers and DNS. */
export function largeNode(): LargePolicyNode {
  const engine = new PolicyEngine('n0');
  for (let at = 0; at < 100; at++) engine.putNode({ name: `n${at}`, podCidrs: [`10.${at}.0.0/16`], addresses: [`192.168.0.${at + 1}`] });
  const places = Array.from(
    { length: namespaceCount * podsOfNamespace },
    (_, at) => [Math.floor(at / podsOfNamespace), at % podsOfNamespace] as const,
  );
  const pods = places.map(([at, n]) => podOf(at, n));
  const policies = Array.from({ length: namespaceCount }, (_, at) => policyOf(`ns${at}`));
  for (let at = 0; at < namespaceCount; at++) engine.putNamespace(`ns${at}`, { 'kubernetes.io/metadata.name': `ns${at}` });
  for (const policy of policies) engine.putPolicy(policy);
  for (const pod of pods) engine.putPod(pod);
  return { engine, pods, policies };
}

function podOf(at: number, n: number): PolicyPod {
  const isHere = n === 0 || (n === 1 && at < 50);
  const node = isHere ? 0 : 1 + ((at + n) % 99);
  return {
    namespace: `ns${at}`,
    name: `p${n}`,
    nodeName: `n${node}`,
    podIps: [`10.${node}.${at + 1}.${n + 1}`],
    labels: { app: `a${n % 4}`, 'statefulset.kubernetes.io/pod-name': `p${n}` },
    ports: {},
  };
}

function policyOf(namespace: string): NetworkPolicy {
  const app = (value: string) => [{ key: 'app', operator: 'In' as const, values: [value] }];
  const named = (name: string) => [{ key: 'kubernetes.io/metadata.name', operator: 'In' as const, values: [name] }];
  return {
    namespace,
    name: 'own',
    uid: namespace,
    generation: 1,
    podSelector: [],
    ingress: [
      { peers: [{ pods: [] }], ports: 'any' },
      { peers: [{ namespaces: named('ns0'), pods: app('a0') }], ports: [{ protocol: 'TCP', port: 8080 }] },
    ],
    egress: [
      { peers: [{ pods: [] }], ports: 'any' },
      { peers: [{ namespaces: named('ns1'), pods: app('a1') }], ports: [{ protocol: 'UDP', port: 53 }] },
    ],
  };
}
