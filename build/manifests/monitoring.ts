import type { Secret, ServiceAccount } from 'kubernetes-types/core/v1.d.ts';
import type { ClusterRole, ClusterRoleBinding } from 'kubernetes-types/rbac/v1.d.ts';
import { agentName } from './access.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { type KubeObject, labelsOf, type Note, type Part } from './part.ts';

const name = 'seine-metrics';
const rbac = 'rbac.authorization.k8s.io';
const labels = labelsOf(name);

/**
 * Type of Prometheus' operator, which has no types package here;
 * https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor.
 */
interface PodMonitor extends KubeObject {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly podMetricsEndpoints: readonly object[];
  };
}

/** Returns nothing unless requested. */
export function monitoring({ podMonitor, agent }: ManifestOptions): Part[] {
  if (!podMonitor) return [];
  const text = String(agent['metricsTLSAddress'] ?? '');
  const port = Number(text.slice(text.lastIndexOf(':') + 1));
  return [
    { object: account, about: 'Identity that may read the metrics of the agents, and nothing else.' },
    { object: role, about: 'Allows `get` of /metrics. Agents ask the API server about each caller.' },
    { object: binding, about: 'Gives the role to that account. Bind other accounts for scrapers of your own.' },
    { object: token, about: 'Token of that account. The API server fills it in, and the Prometheus operator reads it.' },
    { object: monitor(port), about: 'Metrics targets for the Prometheus operator: one for each node, of all pools.', notes },
  ];
}

const account: ServiceAccount = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name, namespace, labels },
  automountServiceAccountToken: false,
};

const role: ClusterRole = {
  apiVersion: `${rbac}/v1`,
  kind: 'ClusterRole',
  metadata: { name, labels },
  rules: [{ nonResourceURLs: ['/metrics'], verbs: ['get'] }],
};

const binding: ClusterRoleBinding = {
  apiVersion: `${rbac}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name, labels },
  roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
  subjects: [{ kind: 'ServiceAccount', name, namespace }],
};

const token: Secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace, labels, annotations: { 'kubernetes.io/service-account.name': name } },
  type: 'kubernetes.io/service-account-token',
};

function monitor(portNumber: number): PodMonitor {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PodMonitor',
    metadata: { name: agentName, namespace, labels: labelsOf(agentName) } as PodMonitor['metadata'] & object,
    spec: {
      selector: { matchLabels: { 'app.kubernetes.io/name': agentName } },
      podMetricsEndpoints: [
        {
          portNumber,
          scheme: 'https',
          path: '/metrics',
          interval: '30s',
          authorization: { type: 'Bearer', credentials: { name, key: 'token' } },
          tlsConfig: { insecureSkipVerify: true },
          relabelings: [
            { targetLabel: 'job', replacement: agentName },
            { sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'instance' },
          ],
        },
      ],
    },
  };
}

const endpointAt = ['spec', 'podMetricsEndpoints', 0];

const notes: readonly Note[] = [
  [
    [...endpointAt, 'portNumber'],
    'By number, of Prometheus’ operator 0.78 or newer: a named port would be one of the node, and keep a second agent away.',
  ],
  [
    [...endpointAt, 'tlsConfig'],
    'The agents sign their certificates themselves, unless they are given one (metricsTLSCertFile): then name its authority here.',
  ],
  [[...endpointAt, 'relabelings'], 'The names that alerts and dashboard go by.'],
];
