import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { KubeApi } from './kube-api.ts';

/** CRD of ClusterNetworkPolicy: names and version of the API, without its validation. */
export const clusterPolicyCrd = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'clusternetworkpolicies.policy.networking.k8s.io' },
  spec: {
    group: 'policy.networking.k8s.io',
    scope: 'Cluster',
    names: {
      kind: 'ClusterNetworkPolicy',
      listKind: 'ClusterNetworkPolicyList',
      plural: 'clusternetworkpolicies',
      singular: 'clusternetworkpolicy',
    },
    versions: [
      {
        name: 'v1beta1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

export const crdPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const clusterPoliciesPath = '/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies';

/** Creates the CRD of ClusterNetworkPolicy, unless the API server has it. Agents that start afterwards follow the policies at once. */
export async function serveClusterPolicies(api: KubeApi, signal: AbortSignal): Promise<void> {
  try {
    await api.send({ method: 'POST', path: crdPath, body: clusterPolicyCrd }, signal);
  } catch (error) {
    if (!(error instanceof SeineError && error.context['status'] === 409)) throw error;
  }
}
