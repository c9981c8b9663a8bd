/*
 * Objects as validated by the API server, with the fields that NetworkPolicy uses (networking.k8s.io/v1, core v1). `null` is an empty list.
 */

export interface PolicyObjects {
  readonly namespaces: readonly NamespaceObject[];
  readonly pods: readonly PodObject[];
  readonly nodes: readonly NodeObject[];
  readonly networkPolicies: readonly NetworkPolicyObject[];
}

type LabelMap = Readonly<Record<string, string>>;

export interface NamespaceObject {
  readonly metadata: { readonly name: string; readonly labels?: LabelMap };
}

export interface NodeObject {
  readonly metadata: { readonly name: string };
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
