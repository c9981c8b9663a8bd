import type { LabelSelectorObject } from '../../src/policy/verify/reference/objects.ts';

/*
 * Policies that other networks and earlier versions of the API have, with the fields that decide about a connection. A test may put any value
 * in them: the evaluator reads what it knows.
 */

interface NamedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly creationTimestamp?: string };
}

/** AdminNetworkPolicy, or BaselineAdminNetworkPolicy without `priority`, policy.networking.k8s.io/v1alpha1. */
export interface AdminPolicyObject extends NamedObject {
  readonly spec: {
    readonly priority?: number;
    readonly subject: AdminPodsObject;
    readonly ingress?: readonly AdminRuleObject[];
    readonly egress?: readonly AdminRuleObject[];
  };
}

export interface AdminPodsObject {
  readonly namespaces?: LabelSelectorObject;
  readonly pods?: { readonly namespaceSelector: LabelSelectorObject; readonly podSelector: LabelSelectorObject };
}

export interface AdminRuleObject {
  readonly name?: string;
  readonly action: string;
  readonly from?: readonly AdminPeerObject[];
  readonly to?: readonly AdminPeerObject[];
  readonly ports?: readonly AdminPortObject[];
}

export interface AdminPeerObject extends AdminPodsObject {
  readonly nodes?: LabelSelectorObject;
  readonly networks?: readonly string[];
  readonly domainNames?: readonly string[];
}

export interface AdminPortObject {
  readonly portNumber?: { readonly protocol: string; readonly port: number };
  readonly portRange?: { readonly protocol?: string; readonly start: number; readonly end: number };
  readonly namedPort?: string;
}

/** ClusterNetworkPolicy or NetworkPolicy, crd.antrea.io/v1beta1. */
export interface AntreaPolicyObject extends NamedObject {
  readonly spec: {
    readonly tier?: string;
    readonly priority: number;
    readonly appliedTo?: readonly AntreaSelection[];
    readonly ingress?: readonly AntreaRuleObject[];
    readonly egress?: readonly AntreaRuleObject[];
  };
}

/** Entry of `appliedTo`, `from` or `to`. */
export interface AntreaSelection {
  readonly podSelector?: LabelSelectorObject;
  readonly namespaceSelector?: LabelSelectorObject;
  readonly group?: string;
  readonly ipBlock?: AntreaBlock;
  readonly nodeSelector?: LabelSelectorObject;
  readonly namespaces?: { readonly match?: string; readonly sameLabels?: readonly string[] };
  readonly fqdn?: string;
  readonly scope?: string;
}

interface AntreaBlock {
  readonly cidr: string;
  readonly except?: readonly string[];
}

export interface AntreaRuleObject {
  readonly name?: string;
  readonly action: string;
  readonly appliedTo?: readonly AntreaSelection[];
  readonly from?: readonly AntreaSelection[];
  readonly to?: readonly AntreaSelection[];
  readonly ports?: readonly AntreaPort[];
  readonly protocols?: readonly object[];
  readonly enableLogging?: boolean;
}

export interface AntreaPort {
  readonly protocol?: string;
  readonly port?: number | string;
  readonly endPort?: number;
  readonly sourcePort?: number;
}

/** ClusterGroup or Group, crd.antrea.io/v1beta1. */
export interface AntreaGroupObject extends NamedObject {
  readonly spec: {
    readonly podSelector?: LabelSelectorObject;
    readonly namespaceSelector?: LabelSelectorObject;
    readonly ipBlocks?: readonly AntreaBlock[];
    readonly childGroups?: readonly string[];
    readonly serviceReference?: object;
  };
}

export interface AntreaTierObject extends NamedObject {
  readonly spec: { readonly priority: number };
}

export interface FormerPolicies {
  readonly admin: readonly AdminPolicyObject[];
  readonly antrea: readonly AntreaPolicyObject[];
  readonly groups: readonly AntreaGroupObject[];
  readonly tiers: readonly AntreaTierObject[];
}
