import type { ProofDifference } from '../../policy/verify/proof/prove.ts';
import type { LeftOut } from './policy-evidence.ts';

/** What `seinectl policy verify` found; `-o json` prints it. */
export interface Verification {
  readonly node: string;
  readonly mode: 'enforce' | 'audit' | 'off';
  /** How many pods were compared, and of these the ones that are to do otherwise than policies say, with the reason. */
  readonly pods: number;
  readonly otherwise: readonly { readonly pod: string; readonly holds: string; readonly why: string }[];
  readonly leftOut: readonly LeftOut[];
  /** Rules whose networks are denied for want of numbers, as the node reports: `namespace/name spec.ingress[2]`. */
  readonly leftOutRules: readonly string[];
  readonly policies: number;
  readonly flows: number;
  readonly cells: number;
  readonly allowed: number;
  readonly denied: number;
  readonly closed: number;
  readonly addresses: number;
  readonly groups: number;
  /** Processor time of the proof alone, in seconds. */
  readonly proofSeconds: number;
  /** What was different at one look, and was not at the next. */
  readonly passing: number;
  readonly differences: readonly VerifiedDifference[];
  /** There may be more than are listed. */
  readonly differencesTotal: number;
  /** Addresses of senders with so many SCTP associations that answers to further ones are denied where policies isolate an end. */
  readonly fullAssociationShares: readonly string[];
  /** Flows of policy's tables that cannot be read, or of which the switch may take either. */
  readonly problems: readonly string[];
}

export interface VerifiedDifference extends Omit<ProofDifference, 'flows'> {
  /** The packet's way through the tables of policy; the last one decided. */
  readonly flows: readonly { readonly table: string; readonly owner?: string; readonly text: string }[];
}
