import { policyDirections } from '../matrix/matrix.ts';
import type { ReachObjects } from '../reach/objects.ts';
import { keyOf } from '../reach/objects.ts';
import { judge } from '../verify/reference/reference-verdict.ts';
import { connectionOf, type LintedEnd, type LintedEnds, probedPorts } from './ends.ts';
import type { LintFinding } from './findings.ts';

const EVALUATIONS_MAX = 1_000_000;

/** P11: Accept rules of tier Admin that leave NetworkPolicies of a pod nothing to deny: it accepts whatever they would deny. */
export function voidedPolicyFindings(ends: LintedEnds): readonly LintFinding[] {
  const { objects } = ends;
  const accepts = (objects.clusterNetworkPolicies ?? []).some(({ spec }) => spec.tier === 'Admin');
  if (!accepts || objects.networkPolicies.length === 0) return [];
  const ports = probedPorts(objects);
  const found = new Map<string, LintFinding>();
  let evaluations = 0;
  for (const direction of policyDirections)
    for (const [subject, own] of bySubject(ends.of(direction))) {
      evaluations += own.length * ports.length;
      if (evaluations > EVALUATIONS_MAX) return [...found.values()];
      const accepted = acceptedInstead(objects, own, ports);
      if (accepted) found.set(accepted.rule, findingOf(accepted.rule, subject, accepted.policies));
    }
  return [...found.values()];
}

function bySubject(ends: Iterable<LintedEnd>): ReadonlyMap<string, readonly LintedEnd[]> {
  return Map.groupBy(ends, ({ end }) => keyOf(end.subject));
}

/** Returns a rule that accepts what NetworkPolicies would deny, if rules of tier Admin accept all of it. */
function acceptedInstead(
  objects: ReachObjects,
  ends: readonly LintedEnd[],
  ports: ReturnType<typeof probedPorts>,
): { readonly rule: string; readonly policies: readonly string[] } | undefined {
  let found: { readonly rule: string; readonly policies: readonly string[] } | undefined;
  for (const end of ends)
    for (const port of ports) {
      const { direction } = end;
      const own = { is: 'pod', pod: end.end.subject } as const;
      const sides = direction === 'ingress' ? { source: end.end.peer, destination: own } : { source: own, destination: end.end.peer };
      const judged = judge(objects, connectionOf(end, port), sides)[direction];
      if (!judged || judged.isolatedBy.length === 0) return undefined;
      if (judged.allowedBy.length > 0) continue;
      if (judged.decidedBy === undefined || judged.verdict === 'deny') return undefined;
      found ??= { rule: judged.decidedBy, policies: judged.isolatedBy };
    }
  return found;
}

function findingOf(rule: string, subject: string, policies: readonly string[]): LintFinding {
  const [policy = '', field = ''] = rule.split(' ');
  return {
    code: 'P11',
    level: 'warning',
    policy,
    field,
    message: `It accepts every connection of ${subject} that ${policies.join(', ')} would deny. Limit its peers or protocols, or use Pass.`,
  };
}
