/**
 * Line of `GET /v1/policy/evidence`: all data needed to prove outside the agent that the bridge does what the policies say. `node` comes
 * first; `end` means that the data are complete, `failed` that they are not, with the reason.
 */
export type PolicyEvidence =
  | EvidenceNode
  | { readonly kind: 'object'; readonly of: EvidenceList /** Object as in the API server. */; readonly object: unknown }
  | EvidenceFlow
  | { readonly kind: 'failed'; readonly message: string }
  | {
      readonly kind: 'end';
      /** Addresses of senders that have used up their share of SCTP associations; absent from agents before 0.23.0. */
      readonly fullAssociationShares?: readonly string[];
    };

/** Kind of an API object, by the name of its list. */
type EvidenceList = 'namespaces' | 'pods' | 'nodes' | 'networkPolicies' | 'clusterNetworkPolicies';

export interface EvidenceNode {
  readonly kind: 'node';
  readonly name: string;
  readonly mode: 'enforce' | 'audit' | 'off';
  /** Addresses from which this node itself sends, and at which it is reached. Canonical text. */
  readonly ownAddresses: readonly string[];
  /** Setting `policy.denied` in force on the node; absent from agents before 0.28.0: not known. */
  readonly denied?: 'drop' | 'reject';
  /** Setting `policy.unknownPeers`; absent from agents before 0.25.0: `closed`. */
  readonly unknownPeers?: 'closed' | 'open';
  /** Rules, `namespace/name spec.ingress[2]`, whose networks are denied because numbers are short: a problem that the node reports. */
  readonly leftOutRules?: readonly string[];
  readonly pods: readonly EvidencePod[];
}

/** Attachment of this node. */
export interface EvidencePod {
  /** `namespace/name`. */
  readonly name: string;
  /** Canonical text. */
  readonly addresses: readonly string[];
  /** OpenFlow port; absent if the policies of the pod have not been determined since the agent started. */
  readonly ofPort?: number;
  /** Expected effect of its flows: that of the policies, everything passes, or only traffic with its own node passes. */
  readonly holds: 'policies' | 'everything' | 'own node only';
  /** Reason if it is not that of the policies. */
  readonly why?: string;
}

/** Flow of a policy table, as in OVS. */
export interface EvidenceFlow {
  readonly kind: 'flow';
  readonly table: number;
  readonly priority: number;
  /** Cookie in hexadecimal, without `0x`. */
  readonly cookie: string;
  /** Base64 of `ofp_match`, and of the instructions as they follow it in OpenFlow 1.5. */
  readonly match: string;
  readonly instructions: string;
  /** Owner of the flow, by its cookie. */
  readonly owner?: string;
}
