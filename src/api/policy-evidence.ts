/**
 * One line of `GET /v1/policy/evidence`: all that it takes to prove, outside the agent, that the bridge does what the policies say. `node`
 * comes first; `end` says that nothing is missing, `failed` that something is, and why.
 */
export type PolicyEvidence =
  | EvidenceNode
  | { readonly kind: 'object'; readonly of: EvidenceList /** As the API server has it. */; readonly object: unknown }
  | EvidenceFlow
  | { readonly kind: 'failed'; readonly message: string }
  | {
      readonly kind: 'end';
      /** Addresses of senders that have used up their share of SCTP associations; absent from agents before 0.23.0. */
      readonly fullAssociationShares?: readonly string[];
    };

/** The member of an object of the API by which lists of it are told. */
type EvidenceList = 'namespaces' | 'pods' | 'nodes' | 'networkPolicies';

export interface EvidenceNode {
  readonly kind: 'node';
  readonly name: string;
  readonly mode: 'enforce' | 'audit' | 'off';
  /** Addresses that this node itself sends from and is reached at. Canonical text. */
  readonly ownAddresses: readonly string[];
  /** Rules, `namespace/name spec.ingress[2]`, whose networks are denied for want of numbers: a problem that the node reports. */
  readonly leftOutRules?: readonly string[];
  readonly pods: readonly EvidencePod[];
}

/** An attachment of this node. */
export interface EvidencePod {
  /** `namespace/name`. */
  readonly name: string;
  /** Canonical. */
  readonly addresses: readonly string[];
  /** Absent where what holds for it is not decided since the agent began. */
  readonly ofPort?: number;
  /** What its flows are to do: as the policies say, let everything pass, or let it talk with its own node only. */
  readonly holds: 'policies' | 'everything' | 'own node only';
  /** Why not as the policies say. */
  readonly why?: string;
}

/** A flow of the tables of policy, as the switch has it. */
export interface EvidenceFlow {
  readonly kind: 'flow';
  readonly table: number;
  readonly priority: number;
  /** Hexadecimal, without `0x`. */
  readonly cookie: string;
  /** Base64 of `ofp_match`, and of the instructions as they follow it in OpenFlow 1.5. */
  readonly match: string;
  readonly instructions: string;
  /** Who wants it, by its cookie. */
  readonly owner?: string;
}
