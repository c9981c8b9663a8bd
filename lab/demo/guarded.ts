import { clusterPoliciesPath } from '../kube/cluster-policies.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { LabPlan } from '../plan/plan.ts';
import { type DemoManifest, demoNamespace, podManifest, podPort } from './workload.ts';

/** A namespace in which only traffic that a policy allows passes: clients of the demo may reach `db`. */
export const guardedNamespace = 'guarded';
export const guardedPod = 'db';
const policies = `/apis/networking.k8s.io/v1/namespaces/${guardedNamespace}/networkpolicies`;

/** Namespace and policies before the pod, which must never be without them. */
export function guardedManifests(plan: LabPlan): DemoManifest[] {
  return [
    {
      collection: '/api/v1/namespaces',
      object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: guardedNamespace, annotations: { 'seine.dev/log': 'denied' } } },
    },
    policy('deny-all', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] }),
    clientsMayAsk,
    newPod(guardedPod, plan),
  ];
}

/** A pod on the first node. */
export function newPod(name: string, plan: LabPlan): DemoManifest {
  return podManifest({ plan, namespace: guardedNamespace, name, node: plan.nodes[0]?.name ?? '', labels: { app: name }, port: podPort });
}

const clientsMayAsk = policy('clients-may-ask', {
  podSelector: { matchLabels: { app: guardedPod } },
  policyTypes: ['Ingress'],
  ingress: [
    {
      from: [
        {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': demoNamespace } },
          podSelector: { matchLabels: { app: 'client' } },
        },
      ],
      ports: (['TCP', 'UDP'] as const).map((protocol) => ({ protocol, port: podPort })),
    },
  ],
});

function policy(name: string, spec: object): DemoManifest {
  return { collection: policies, object: { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name }, spec } };
}

/** Removes or restores the policy that allows clients. */
export async function setClientsMayAsk(api: KubeApi, may: boolean, signal: AbortSignal): Promise<void> {
  if (may) await api.send({ method: 'POST', path: policies, body: clientsMayAsk.object }, signal);
  else await api.send({ method: 'DELETE', path: `${policies}/clients-may-ask` }, signal);
}

export async function putClusterPolicy(api: KubeApi, policy: object, signal: AbortSignal): Promise<void> {
  await api.send({ method: 'POST', path: clusterPoliciesPath, body: policy }, signal);
}

export async function removeClusterPolicy(api: KubeApi, name: string, signal: AbortSignal): Promise<void> {
  await api.send({ method: 'DELETE', path: `${clusterPoliciesPath}/${name}` }, signal);
}
