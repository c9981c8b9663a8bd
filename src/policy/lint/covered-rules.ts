import { policyDirections } from '../matrix/matrix.ts';
import { verdictOfTier } from '../verify/reference/cluster-verdict.ts';
import type { ClusterNetworkPolicyObject, PolicyObjects } from '../verify/reference/objects.ts';
import { judge } from '../verify/reference/reference-verdict.ts';
import { connectionOf, connectionText, type LintedEnd, type LintedEnds, type ProtocolPort, probedPorts } from './ends.ts';
import type { LintFinding } from './findings.ts';

/** Evaluations for one rule: more would take minutes, and such a rule is not reported. */
const EVALUATIONS_MAX = 200_000;

interface ClusterRuleAt {
  readonly policy: ClusterNetworkPolicyObject;
  readonly direction: 'ingress' | 'egress';
  readonly at: number;
  /** `name spec.ingress[2]`. */
  readonly name: string;
}

/**
 * P01: rules of ClusterNetworkPolicies that match connections, and decide about none, because earlier rules do. P10: rules of tier Baseline for
 * pods that NetworkPolicies isolate. The engine finds candidates, the reference confirms them.
 */
export function coveredRuleFindings(ends: LintedEnds): readonly LintFinding[] {
  const deciding = decidingRules(ends);
  const ports = probedPorts(ends.objects);
  const rules = (ends.objects.clusterNetworkPolicies ?? []).flatMap((policy) =>
    policyDirections.flatMap((direction) =>
      (policy.spec[direction] ?? []).map((_, at) => ({ policy, direction, at, name: `${policy.metadata.name} spec.${direction}[${at}]` })),
    ),
  );
  return rules.filter(({ name }) => !deciding.has(name)).flatMap((rule) => findingOf(ends, ports, rule) ?? []);
}

/** Returns the rules that decide about some connection, by the engine. A rule that passes never does. */
function decidingRules(ends: LintedEnds): ReadonlySet<string> {
  const found = new Set<string>();
  const seen = new Set<object>();
  for (const direction of policyDirections)
    for (const { subject, peer, family } of ends.of(direction)) {
      const result = ends.reach.endOf(direction, subject, peer, family);
      if (!result || seen.has(result)) continue;
      seen.add(result);
      for (const { by } of [result.otherwise, ...result.ranges.map(({ outcome }) => outcome)]) for (const rule of by) found.add(rule);
    }
  return found;
}

function findingOf(ends: LintedEnds, ports: readonly ProtocolPort[], rule: ClusterRuleAt): LintFinding | undefined {
  const { policy, direction } = rule;
  const alone = onlyRule(ends.objects, rule);
  let evaluations = 0;
  let isolated: string | undefined;
  let covered: string | undefined;
  for (const end of ends.of(direction, policy.metadata.name))
    for (const port of ports) {
      evaluations++;
      if (evaluations > EVALUATIONS_MAX) return undefined;
      if (!verdictOfTier(alone, policy.spec.tier, connectionOf(end, port), end.end)) continue;
      const winner = winnerOf(ends.objects, rule, end, port);
      if (winner === 'itself') return undefined;
      const text = `${connectionText(end, port)}: ${winner} decides`;
      if (winner.includes(' spec.') && !winner.includes('/')) covered ??= text;
      else isolated ??= text;
    }
  if (covered !== undefined)
    return finding('P01', rule, `Earlier rules decide about every connection that it matches, such as ${covered}.`);
  if (isolated === undefined) return undefined;
  return finding('P10', rule, `NetworkPolicies isolate every pod that it matches, such as ${isolated}.`);
}

function finding(code: 'P01' | 'P10', { policy, direction, at }: ClusterRuleAt, state: string): LintFinding {
  const message = `${state} Remove the rule, or move it before them.`;
  return { code, level: 'warning', policy: policy.metadata.name, field: `spec.${direction}[${at}]`, message };
}

function onlyRule(objects: PolicyObjects, { policy, direction, at }: ClusterRuleAt): PolicyObjects {
  const { ingress: _, egress: __, ...spec } = policy.spec;
  const rules = policy.spec[direction]?.slice(at, at + 1) ?? [];
  return { ...objects, networkPolicies: [], clusterNetworkPolicies: [{ ...policy, spec: { ...spec, [direction]: rules } }] };
}

/** Returns the rule or policies that decide where a rule matches; `itself` if the rule does. */
function winnerOf(objects: PolicyObjects, { policy, direction, name }: ClusterRuleAt, end: LintedEnd, port: ProtocolPort): string {
  const connection = connectionOf(end, port);
  const { tier } = policy.spec;
  if (tier === 'Baseline') {
    const before = judge({ ...objects, clusterNetworkPolicies: ofTier(objects, 'Admin') }, connection, sidesOf(end))[direction];
    if (before?.decidedBy !== undefined) return before.decidedBy;
    if (before && before.isolatedBy.length > 0) return before.isolatedBy.join(', ');
  }
  const decided = verdictOfTier(objects, tier, connection, end.end);
  return decided?.rule === name ? 'itself' : (decided?.rule ?? 'itself');
}

function ofTier({ clusterNetworkPolicies = [] }: PolicyObjects, tier: 'Admin' | 'Baseline'): readonly ClusterNetworkPolicyObject[] {
  return clusterNetworkPolicies.filter(({ spec }) => spec.tier === tier);
}

function sidesOf({ direction, end }: LintedEnd) {
  const own = { is: 'pod', pod: end.subject } as const;
  return direction === 'ingress' ? { source: end.peer, destination: own } : { source: own, destination: end.peer };
}
