/** Codes of findings, and what they mean. Codes are not reused. */
export const lintCodes = {
  P01: 'a rule decides about no connection, because earlier rules do',
  P02: 'policies of equal priority contradict each other',
  P03: 'a selector matches no pod',
  P04: 'egress is isolated, and DNS is not allowed',
  P05: 'names are accepted without a rule that denies the rest, or without DNS',
  P06: 'podSelector and namespaceSelector are two peers',
  P07: 'a network overlaps the pod networks',
  P08: 'no pod has a port of this name',
  P09: 'policyTypes isolate or ignore a direction unexpectedly',
  P10: 'a rule of tier Baseline reaches no pod, because NetworkPolicies isolate them',
  P11: 'a rule of tier Admin accepts what NetworkPolicies would deny',
  P12: 'a field cannot be used',
  P13: 'a policy needs more than 1,000 rows',
  P14: 'a network for external clients, whose address the pod does not see',
} as const;

type LintCode = keyof typeof lintCodes;

/** Codes of the checks of NetworkPolicies, and of ClusterNetworkPolicies. */
export const namespaceLintCodes: readonly LintCode[] = ['P03', 'P04', 'P06', 'P07', 'P08', 'P09', 'P12', 'P13', 'P14'];
export const clusterLintCodes: readonly LintCode[] = ['P01', 'P02', 'P03', 'P05', 'P10', 'P11', 'P12', 'P13'];

/** `error`: a part of the policy has no effect, or another one than written. `warning`: a likely mistake. */
type LintLevel = 'error' | 'warning';

export interface LintFinding {
  readonly code: LintCode;
  readonly level: LintLevel;
  /** `namespace/name` of the NetworkPolicy, or name of the ClusterNetworkPolicy. */
  readonly policy: string;
  /** Field, such as `spec.ingress[0].from[1]`. */
  readonly field: string;
  /** State, consequence and remedy. */
  readonly message: string;
}
