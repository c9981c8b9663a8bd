import type { SuspensionView } from '../../agent-api/policy.ts';
import type { FoundProblem } from '../../agent-api/problem.ts';
import type { NetworkPolicyStatus } from '../../agent-api/status.ts';
import type { PodStanding } from '../../enforce/enforcement.ts';
import type { Suspensions } from '../../enforce/suspensions.ts';

/** Of pods that are closed, so many are named. */
const CLOSED_NAMED_MAX = 20;

export interface PolicyObjectsPort {
  readonly sources: { readonly networkPolicies: { readonly replica: { readonly size: number } } };
  readonly suspensions: Pick<Suspensions, 'list'>;
}

/** The node, once it is known. */
export interface PolicyFactsNode {
  readonly environment: { readonly policyMode?: NonNullable<NetworkPolicyStatus['mode']> };
  readonly policy: { pods(): ReadonlyMap<string, PodStanding>; readonly shortages: readonly string[] };
}

/** What NetworkPolicies do on this node. */
export function policyFacts({ sources, suspensions }: PolicyObjectsPort, node: PolicyFactsNode | undefined): NetworkPolicyStatus {
  const selecting = new Set<string>();
  const closedPods: { pod: string; why: string }[] = [];
  let isolatedPods = 0;
  const pods = node?.policy.pods() ?? new Map<string, PodStanding>();
  for (const [pod, { is, why = '', ingress, egress }] of pods) {
    if (is === 'closed') closedPods.push({ pod, why });
    if (is === 'policed') isolatedPods++;
    for (const policy of [...ingress, ...egress]) selecting.add(policy);
  }
  const shortages = node?.policy.shortages ?? [];
  const objects = sources.networkPolicies.replica.size;
  const mode = node && { mode: node.environment.policyMode ?? 'enforce' };
  const suspended = suspensions.list(pods.keys());
  const counts = { objects, selecting: selecting.size, isolatedPods };
  return { enforcement: 'enforced', ...mode, ...counts, closedPods, suspensions: suspended, shortages };
}

/** Where policies are not enforced, closed pods lack nothing. */
export function policyProblems({
  mode,
  closedPods: all = [],
  suspensions = [],
  shortages = [],
}: NetworkPolicyStatus): readonly FoundProblem[] {
  const closedPods = mode === 'audit' ? [] : all;
  const more = closedPods.length - CLOSED_NAMED_MAX;
  return [
    ...closedPods.slice(0, CLOSED_NAMED_MAX).map(({ pod, why }): FoundProblem => {
      const message = `pod ${pod} is closed, nothing but its node may talk to it: ${why}`;
      return { kind: 'policy.closed', about: pod, message, mend: `seinectl explain pod ${pod}` };
    }),
    ...(more > 0 ? [{ kind: 'policy.closed', about: 'more', message: `${more} more pods are closed` } as const] : []),
    ...suspensions.map(suspended),
    ...shortages.map((message): FoundProblem => ({ kind: 'policy.numbers', about: message.replace(/\d+ /, ''), message })),
  ];
}

function suspended({ what, name, reason, until, pods }: SuspensionView): FoundProblem {
  const about = what === 'node' ? 'this node' : `${what} ${name}`;
  const message = `policies do nothing to ${about} until ${until} (${pods} pods here): ${reason}`;
  return { kind: 'policy.suspended', about, message, mend: `seinectl policy resume --${what}${what === 'node' ? '' : ` ${name}`}` };
}
