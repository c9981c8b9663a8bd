import { policyDirections } from '../matrix/matrix.ts';
import { verdictOfTier } from '../verify/reference/cluster-verdict.ts';
import type { ClusterNetworkPolicyObject } from '../verify/reference/objects.ts';
import { connectionOf, connectionText, type LintedEnds, probedPorts } from './ends.ts';
import type { LintFinding } from './findings.ts';

type FirstRule = NonNullable<ReturnType<typeof verdictOfTier>>;

/** Evaluations for one pair of policies. */
const EVALUATIONS_MAX = 200_000;
/** Pairs of policies that are compared. */
const PAIRS_MAX = 1_000;

/** P02: two policies of one tier and priority whose rules contradict each other about a connection. Which of them decides depends on their age. */
export function equalPriorityFindings(ends: LintedEnds): readonly LintFinding[] {
  const groups = Map.groupBy(ends.objects.clusterNetworkPolicies ?? [], ({ spec }) => `${spec.tier} ${spec.priority}`);
  const pairs = [...groups.values()].flatMap((same) =>
    same.flatMap((one, at) =>
      same.slice(at + 1).map((other): readonly [ClusterNetworkPolicyObject, ClusterNetworkPolicyObject] => [one, other]),
    ),
  );
  return pairs.slice(0, PAIRS_MAX).flatMap(([one, other]) => conflictOf(ends, one, other) ?? []);
}

function conflictOf(ends: LintedEnds, one: ClusterNetworkPolicyObject, other: ClusterNetworkPolicyObject): LintFinding | undefined {
  const both = { ...ends.objects, clusterNetworkPolicies: [one, other] };
  const ports = probedPorts({ ...both, networkPolicies: [] });
  const { tier } = one.spec;
  let evaluations = 0;
  for (const direction of policyDirections)
    for (const end of ends.of(direction, one.metadata.name, other.metadata.name))
      for (const port of ports) {
        evaluations++;
        if (evaluations > EVALUATIONS_MAX) return undefined;
        const connection = connectionOf(end, port);
        const judged = [one, other].map((policy) =>
          verdictOfTier({ ...both, clusterNetworkPolicies: [policy] }, tier, connection, end.end),
        );
        const [first, second] = judged;
        if (!first || !second || first.action === second.action) continue;
        const winner = verdictOfTier(ends.objects, tier, connection, end.end);
        if (winner?.rule !== first.rule && winner?.rule !== second.rule) continue;
        return findingOf(connectionText(end, port), winner, winner.rule === first.rule ? [other, second] : [one, first]);
      }
  return undefined;
}

function findingOf(
  connection: string,
  winner: FirstRule,
  [{ metadata, spec }, loser]: readonly [ClusterNetworkPolicyObject, FirstRule],
): LintFinding {
  return {
    code: 'P02',
    level: 'error',
    policy: metadata.name,
    field: 'spec.priority',
    message:
      `${connection}: ${winner.rule} (${winner.action}) and ${loser.rule} (${loser.action}) have priority ${spec.priority} of tier ${spec.tier}. ` +
      'The older policy decides, then the name; another network may choose otherwise. Give them different priorities.',
  };
}
