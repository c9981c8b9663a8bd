/** CRD of ClusterNetworkPolicy for labs: names and version of the API, without its validation. */
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
