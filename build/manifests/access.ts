import type { ServiceAccount } from 'kubernetes-types/core/v1.d.ts';
import type { FlowSchema } from 'kubernetes-types/flowcontrol/v1.d.ts';
import type { ClusterRole, ClusterRoleBinding } from 'kubernetes-types/rbac/v1.d.ts';
import { type Permission, permissionsOf } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { labelsOf, type Part } from './part.ts';

export const agentName = 'seine-agent';
const rbac = 'rbac.authorization.k8s.io';

export function access(options: ManifestOptions): Part[] {
  const permissions = permissionsOf(options);
  return [
    { object: serviceAccount, about: 'Identity of the agents for the API server. Open vSwitch has none.' },
    {
      object: clusterRole(permissions),
      about:
        'Permissions of the agents. They write events, and one condition and announcements of a Node only; the admission policies below restrict both.',
      notes: permissions.map(({ why }, index) => [['rules', index], why] as const),
    },
    { object: clusterRoleBinding, about: 'Gives the role to the agents.' },
    {
      object: flowSchema,
      about: [
        'Lists and watches of agents have the priority of system components, so that workloads that flood the API server',
        'do not delay them.',
      ].join('\n'),
    },
  ];
}

const serviceAccount: ServiceAccount = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name: agentName, namespace, labels: labelsOf(agentName) },
};

function clusterRole(permissions: readonly Permission[]): ClusterRole {
  return {
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRole',
    metadata: { name: agentName, labels: labelsOf(agentName) },
    rules: permissions.map(({ rule }) => rule),
  };
}

const clusterRoleBinding: ClusterRoleBinding = {
  apiVersion: `${rbac}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name: agentName, labels: labelsOf(agentName) },
  roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: agentName },
  subjects: [{ kind: 'ServiceAccount', name: agentName, namespace }],
};

/** Before `service-accounts` (9000), after `kube-system-service-accounts` (900), of the schemas every cluster has. */
const matchingPrecedence = 1000;

const flowSchema: FlowSchema = {
  apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
  kind: 'FlowSchema',
  metadata: { name: agentName, labels: labelsOf(agentName) },
  spec: {
    priorityLevelConfiguration: { name: 'workload-high' },
    matchingPrecedence,
    rules: [
      {
        subjects: [{ kind: 'ServiceAccount', serviceAccount: { name: agentName, namespace } }],
        resourceRules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'], clusterScope: true, namespaces: ['*'] }],
      },
    ],
  },
};
