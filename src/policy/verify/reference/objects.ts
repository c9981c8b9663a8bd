/*
 * Objects as validated by the API server, with the fields that policies use (networking.k8s.io/v1, policy.networking.k8s.io/v1beta1, core
 * v1). `null` is an empty list.
 */

export interface PolicyObjects {
  readonly namespaces: readonly NamespaceObject[];
  readonly pods: readonly PodObject[];
  readonly nodes: readonly NodeObject[];
  readonly networkPolicies: readonly NetworkPolicyObject[];
  /** Absent: none. */
  readonly clusterNetworkPolicies?: readonly ClusterNetworkPolicyObject[];
}

type LabelMap = Readonly<Record<string, string>>;

export interface NamespaceObject {
  readonly metadata: { readonly name: string; readonly labels?: LabelMap; readonly annotations?: LabelMap };
}

export interface NodeObject {
  readonly metadata: { readonly name: string; readonly labels?: LabelMap };
  readonly spec: { readonly podCIDRs?: readonly string[] };
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}

export interface PodObject {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly labels?: LabelMap; readonly creationTimestamp?: string };
  readonly spec: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly containers: readonly ContainerObject[];
    readonly initContainers?: readonly (ContainerObject & { readonly restartPolicy?: string })[];
  };
  readonly status: { readonly phase: string; readonly podIPs?: readonly { readonly ip: string }[] };
}

export interface ContainerObject {
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number; readonly protocol?: string }[];
}

export interface NetworkPolicyObject {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec: {
    readonly podSelector: LabelSelectorObject;
    readonly policyTypes?: readonly string[] | null;
    readonly ingress?: readonly PolicyRuleObject[] | null;
    readonly egress?: readonly PolicyRuleObject[] | null;
  };
}

/** Rule of a policy: `from` for ingress, `to` for egress. */
export interface PolicyRuleObject {
  readonly from?: readonly PolicyPeerObject[] | null;
  readonly to?: readonly PolicyPeerObject[] | null;
  readonly ports?: readonly PolicyPortObject[] | null;
}

export interface PolicyPeerObject {
  readonly podSelector?: LabelSelectorObject;
  readonly namespaceSelector?: LabelSelectorObject;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] | null };
}

export interface PolicyPortObject {
  readonly protocol?: string;
  /** Port number, or the name of a container port. */
  readonly port?: number | string;
  readonly endPort?: number;
}

export interface LabelSelectorObject {
  readonly matchLabels?: LabelMap;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[];
}

export interface ClusterNetworkPolicyObject {
  readonly metadata: { readonly name: string; readonly creationTimestamp?: string; readonly annotations?: LabelMap };
  readonly spec: {
    readonly tier: 'Admin' | 'Baseline';
    readonly priority: number;
    readonly subject: ClusterPodsObject;
    readonly ingress?: readonly ClusterRuleObject[];
    readonly egress?: readonly ClusterRuleObject[];
  };
}

/** Pods of namespaces, or selected pods of namespaces: one of both. A later version of the API may have other fields. */
export interface ClusterPodsObject {
  readonly namespaces?: LabelSelectorObject;
  readonly pods?: { readonly namespaceSelector: LabelSelectorObject; readonly podSelector: LabelSelectorObject };
}

/** Rule of a ClusterNetworkPolicy: `from` for ingress, `to` for egress. */
export interface ClusterRuleObject {
  readonly name?: string;
  readonly action: 'Accept' | 'Deny' | 'Pass';
  readonly from?: readonly ClusterPeerObject[];
  readonly to?: readonly ClusterPeerObject[];
  readonly protocols?: readonly ClusterProtocolObject[];
}

export interface ClusterPeerObject extends ClusterPodsObject {
  readonly networks?: readonly string[];
  readonly nodes?: LabelSelectorObject;
  readonly domainNames?: readonly string[];
}

export interface ClusterProtocolObject {
  readonly tcp?: ClusterTransportObject;
  readonly udp?: ClusterTransportObject;
  readonly sctp?: ClusterTransportObject;
  readonly destinationNamedPort?: string;
}

export interface ClusterTransportObject {
  readonly destinationPort?: { readonly number?: number; readonly range?: { readonly start: number; readonly end: number } };
}

/** Answer to denied clients that an object states by its annotation `seine.dev/denied`; undefined if it states none. */
export function statedAnswer({ annotations }: { readonly annotations?: LabelMap }): 'reject' | 'drop' | undefined {
  const text = annotations?.['seine.dev/denied'];
  return text === 'reject' || text === 'drop' ? text : undefined;
}
