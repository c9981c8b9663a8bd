import type { NetworkPolicy } from '../../src/kubernetes/resources/network-policy.ts';
import type { PolicyPod } from '../../src/kubernetes/resources/policy-pod.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const policyRowNames = ['policy.compute', 'policy.compute.share', 'policy.churn'] as const;

const size = { namespaces: 25_000, podsOfNamespace: 4, policiesOfNamespace: 3, nodes: 1_000, localPods: 110, rounds: 5 } as const;
const ownNode = 'n0';

/**
 * Policy of 100,000 pods and 75,000 policies, from parsed objects. `compute`: all of it, from nothing, on a node with 110 pods. `share`:
 * cost of that node's pods when everything else is known. `churn`: one pod elsewhere that is relabelled.
 */
export async function policyRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const pods = clusterPods();
  const policies = clusterPolicies();
  print(`policy of ${pods.length} pods and ${policies.length} policies`);
  const compute: number[] = [];
  const share: number[] = [];
  const churn: number[] = [];
  for (let round = 0; round < size.rounds; round++) {
    const startMs = performance.now();
    const engine = new PolicyEngine(ownNode);
    fill(engine, policies);
    for (const pod of pods) if (pod.nodeName !== ownNode) engine.putPod(pod);
    engine.update();
    const indexedMs = performance.now();
    for (const pod of pods) if (pod.nodeName === ownNode) engine.putPod(pod);
    engine.update();
    const doneMs = performance.now();
    compute.push(doneMs - startMs);
    share.push(doneMs - indexedMs);
    churn.push(relabelled(engine, pods));
    if (round === 0) print(`  ${textOf(engine)}`);
  }
  const rows = [
    { name: 'policy.compute', unit: 'ms', ours: compute },
    { name: 'policy.compute.share', unit: 'ms', ours: share },
    { name: 'policy.churn', unit: 'ms', ours: churn },
  ];
  return rows.filter(({ name }) => selected(name));
}

function fill(engine: PolicyEngine, policies: readonly NetworkPolicy[]): void {
  for (let at = 0; at < size.nodes; at++)
    engine.putNode({ name: `n${at}`, podCidrs: [`10.${at >> 8}.${at & 255}.0/24`], addresses: [`192.168.${at >> 8}.${at & 255}`] });
  for (let at = 0; at < size.namespaces; at++)
    engine.putNamespace(`ns${at}`, { 'kubernetes.io/metadata.name': `ns${at}`, env: at % 10 === 0 ? 'prod' : 'dev' });
  for (const policy of policies) engine.putPolicy(policy);
}

/** Every pod has a unique label, like those of StatefulSets. */
function clusterPods(): readonly PolicyPod[] {
  return Array.from({ length: size.namespaces * size.podsOfNamespace }, (_, at): PolicyPod => {
    const node = at < size.localPods ? 0 : 1 + (at % (size.nodes - 1));
    const host = at < size.localPods ? at + 2 : 2 + Math.floor(at / (size.nodes - 1));
    return {
      namespace: `ns${Math.floor(at / size.podsOfNamespace)}`,
      name: `p${at}`,
      nodeName: `n${node}`,
      podIps: [`10.${node >> 8}.${node & 255}.${host}`],
      labels: { app: `a${at % size.podsOfNamespace}`, 'statefulset.kubernetes.io/pod-name': `p${at}` },
      ports: { 'http/TCP': 8080 },
    };
  });
}

/** In each namespace: nothing but the own namespace and ingress controllers; DNS; one application from another, and from a network. */
function clusterPolicies(): readonly NetworkPolicy[] {
  const app = (value: string) => [{ key: 'app', operator: 'In', values: [value] }] as const;
  return Array.from({ length: size.namespaces }, (_, at): readonly NetworkPolicy[] => {
    const of = (name: string) => ({ namespace: `ns${at}`, name, uid: `${at} ${name}`, generation: 1 });
    const prod = [{ key: 'env', operator: 'In', values: ['prod'] }] as const;
    return [
      {
        ...of('own'),
        podSelector: [],
        ingress: [
          { peers: [{ pods: [] }], ports: 'any' },
          { peers: [{ namespaces: prod, pods: app('a0') }], ports: 'any' },
        ],
      },
      {
        ...of('dns'),
        podSelector: [],
        egress: [
          { peers: [{ namespaces: [], pods: app('a1') }], ports: [{ protocol: 'UDP', port: 53 }] },
          { peers: [{ pods: [] }], ports: 'any' },
        ],
      },
      {
        ...of('app'),
        podSelector: app('a2'),
        ingress: [
          {
            peers: [{ pods: app('a3') }, { cidr: '172.16.0.0/12', except: [`172.16.${at & 255}.0/24`] }],
            ports: [{ protocol: 'TCP', port: 'http' }],
          },
        ],
      },
    ];
  }).flat();
}

function relabelled(engine: PolicyEngine, pods: readonly PolicyPod[]): number {
  const pod = pods.at(-1);
  if (!pod) throw new Error('there is no pod');
  const startMs = performance.now();
  engine.putPod({ ...pod, labels: { ...pod.labels, app: 'a1' } });
  engine.update();
  return performance.now() - startMs;
}

function textOf({ matrix }: PolicyEngine): string {
  return [matrix.ingress, matrix.egress]
    .map(({ identities, relations }) => `${identities.size} identities, ${relations.size} relations`)
    .join('; ');
}
