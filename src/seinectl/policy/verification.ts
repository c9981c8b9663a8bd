import type { ProofDifference } from '../../policy/verify/proof/prove.ts';
import type { Omitted } from './policy-evidence.ts';

/** Result of `seinectl policy verify`, also of `-o json`. */
export interface Verification {
  readonly node: string;
  readonly mode: 'enforce' | 'audit' | 'off';
  /** Number of compared pods, and those whose traffic intentionally differs from policies, with the reason. */
  readonly pods: number;
  readonly otherwise: readonly { readonly pod: string; readonly holds: string; readonly why: string }[];
  readonly leftOut: readonly Omitted[];
  /** Rules whose networks are denied for lack of numbers, as the node reports: `namespace/name spec.ingress[2]`. */
  readonly leftOutRules: readonly string[];
  readonly policies: number;
  readonly flows: number;
  readonly cells: number;
  readonly allowed: number;
  readonly denied: number;
  readonly closed: number;
  readonly addresses: number;
  readonly groups: number;
  /** CPU time of the proof alone, in seconds. */
  readonly proofSeconds: number;
  /** Number of differences in one comparison that were gone in the next. */
  readonly passing: number;
  readonly differences: readonly VerifiedDifference[];
  /** Total number; there may be more than are listed. */
  readonly differencesTotal: number;
  /** Addresses of senders with so many SCTP associations that replies of further ones are denied if policies isolate an end. */
  readonly fullAssociationShares: readonly string[];
  /** Flows of policy tables that cannot be read, or that overlap with the same priority. */
  readonly problems: readonly string[];
}

export interface VerifiedDifference extends Omit<ProofDifference, 'flows'> {
  /** Flows that the packet matches in the policy tables; the last one decided. */
  readonly flows: readonly { readonly table: string; readonly owner?: string; readonly text: string }[];
}
