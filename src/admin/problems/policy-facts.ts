import type { FoundProblem } from '../../agent-api/problem.ts';
import type { NetworkPolicyStatus } from '../../agent-api/status.ts';
import type { PodStanding } from '../../enforce/enforcement.ts';

/** Of pods that are closed, so many are named. */
const CLOSED_NAMED_MAX = 20;

export interface PolicyObjectsPort {
  readonly sources: { readonly networkPolicies: { readonly replica: { readonly size: number } } };
}

/** The node, once it is known. */
export interface PolicyFactsNode {
  readonly environment: { readonly policyMode?: NonNullable<NetworkPolicyStatus['mode']> };
  readonly policy: { pods(): ReadonlyMap<string, PodStanding>; readonly shortages: readonly string[] };
}

/** What NetworkPolicies do on this node. */
export function policyFacts({ sources }: PolicyObjectsPort, node: PolicyFactsNode | undefined): NetworkPolicyStatus {
  const selecting = new Set<string>();
  const closedPods: { pod: string; why: string }[] = [];
  let isolatedPods = 0;
  for (const [pod, { is, why = '', ingress, egress }] of node?.policy.pods() ?? []) {
    if (is === 'closed') closedPods.push({ pod, why });
    if (is === 'policed') isolatedPods++;
    for (const policy of [...ingress, ...egress]) selecting.add(policy);
  }
  const shortages = node?.policy.shortages ?? [];
  const objects = sources.networkPolicies.replica.size;
  const mode = node && { mode: node.environment.policyMode ?? 'enforce' };
  return { enforcement: 'enforced', ...mode, objects, selecting: selecting.size, isolatedPods, closedPods, shortages };
}

/** Where policies are not enforced, closed pods lack nothing. */
export function policyProblems({ mode, closedPods: all = [], shortages = [] }: NetworkPolicyStatus): readonly FoundProblem[] {
  const closedPods = mode === 'audit' ? [] : all;
  const more = closedPods.length - CLOSED_NAMED_MAX;
  return [
    ...closedPods.slice(0, CLOSED_NAMED_MAX).map(({ pod, why }): FoundProblem => {
      const message = `pod ${pod} is closed, nothing but its node may talk to it: ${why}`;
      return { kind: 'policy.closed', about: pod, message, mend: `seinectl explain pod ${pod}` };
    }),
    ...(more > 0 ? [{ kind: 'policy.closed', about: 'more', message: `${more} more pods are closed` } as const] : []),
    ...shortages.map((message): FoundProblem => ({ kind: 'policy.numbers', about: message.replace(/\d+ /, ''), message })),
  ];
}
