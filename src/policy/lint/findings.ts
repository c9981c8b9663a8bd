/** Codes of findings, and what they mean. Codes are not reused. */
export const lintCodes = {
  P03: 'a selector matches no pod',
  P04: 'egress is isolated, and DNS is not allowed',
  P06: 'podSelector and namespaceSelector are two peers',
  P07: 'a network overlaps the pod networks',
  P08: 'no pod has a port of this name',
  P09: 'policyTypes isolate or ignore a direction unexpectedly',
  P12: 'a field cannot be used',
  P14: 'a network for external clients, whose address the pod does not see',
} as const;

type LintCode = keyof typeof lintCodes;

/** `error`: a part of the policy has no effect, or another one than written. `warning`: a likely mistake. */
type LintLevel = 'error' | 'warning';

export interface LintFinding {
  readonly code: LintCode;
  readonly level: LintLevel;
  /** `namespace/name` of the NetworkPolicy. */
  readonly policy: string;
  /** Field, such as `spec.ingress[0].from[1]`. */
  readonly field: string;
  /** State, consequence and remedy. */
  readonly message: string;
}
