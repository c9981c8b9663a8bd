import type { SuspensionView } from '../../../api/policy.ts';
import type { FoundProblem } from '../../../api/problem.ts';
import type { NetworkPolicyStatus } from '../../../api/status.ts';
import type { OperatorOverrides } from '../../../dataplane/targets/bridge/operator-overrides.ts';
import type { PodStanding } from '../../../policy/controller/pod-policy-state.ts';
import type { Suspensions } from '../../../policy/controller/suspensions.ts';

/** Maximum number of blocked pods that are named. */
const CLOSED_NAMED_MAX = 20;

export interface PolicyObjectsPort {
  readonly sources: {
    readonly networkPolicies: { readonly replica: { readonly size: number } };
    readonly clusterNetworkPolicies?: { readonly replica: { readonly size: number } };
  };
  readonly suspensions: Pick<Suspensions, 'list'>;
  readonly operatorOverrides: Pick<OperatorOverrides, 'list'>;
}

/** Node, once it is known. */
export interface PolicyFactsNode {
  readonly environment: { readonly policyMode?: NonNullable<NetworkPolicyStatus['mode']>; readonly denied?: 'drop' | 'reject' };
  readonly policy: {
    pods(): ReadonlyMap<string, PodStanding>;
    podAt(ofPort: number): string | undefined;
    readonly shortages: readonly string[];
  };
}

/** Effects of NetworkPolicies on this node. */
export function policyFacts(
  { sources, suspensions, operatorOverrides }: PolicyObjectsPort,
  node: PolicyFactsNode | undefined,
): NetworkPolicyStatus {
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
  const clusterObjects = sources.clusterNetworkPolicies?.replica.size ?? 0;
  const mode = node && { mode: node.environment.policyMode ?? 'enforce' };
  const denied = node?.environment.denied === 'reject' ? { denied: 'reject' as const } : {};
  const suspended = suspensions.list(pods.keys());
  const opened = operatorOverrides
    .list()
    .map(({ ofPort, secondsLeft }) => ({ pod: node?.policy.podAt(ofPort) ?? `port ${ofPort}`, secondsLeft }));
  const ofCluster = [...selecting].filter((name) => !name.includes('/')).length;
  const cluster = clusterObjects > 0 ? { clusterObjects, clusterSelecting: ofCluster } : {};
  const counts = { objects, selecting: selecting.size - ofCluster, ...cluster, isolatedPods };
  return { enforcement: 'enforced', ...mode, ...denied, ...counts, closedPods, suspensions: suspended, openedByHand: opened, shortages };
}

/** If policies are not enforced, blocked pods are not a problem. */
export function policyProblems({
  mode,
  closedPods: all = [],
  suspensions = [],
  openedByHand = [],
  shortages = [],
}: NetworkPolicyStatus): readonly FoundProblem[] {
  const closedPods = mode === 'audit' ? [] : all;
  const more = closedPods.length - CLOSED_NAMED_MAX;
  return [
    ...closedPods.slice(0, CLOSED_NAMED_MAX).map(({ pod, why }): FoundProblem => {
      const message = `pod ${pod} is blocked; only its node can reach it: ${why}`;
      return { kind: 'policy.closed', about: pod, message, remedy: `seinectl explain pod ${pod}` };
    }),
    ...(more > 0 ? [{ kind: 'policy.closed', about: 'more', message: `${more} more pods are blocked` } as const] : []),
    ...suspensions.map(suspended),
    ...openedByHand.map(opened),
    ...shortages.map((message): FoundProblem => ({ kind: 'policy.numbers', about: aboutShortage(message), message })),
  ];
}

/** Constant while counts and named rules change. */
function aboutShortage(message: string): string {
  return message.replace(/ \([^)]*\)/, '').replace(/\d+ /g, '');
}

function suspended({ what, name, reason, until, pods }: SuspensionView): FoundProblem {
  const about = what === 'node' ? 'this node' : `${what} ${name}`;
  const message = `policies do nothing to ${about} until ${until} (${pods} pods here): ${reason}`;
  return { kind: 'policy.suspended', about, message, remedy: `seinectl policy resume --${what}${what === 'node' ? '' : ` ${name}`}` };
}

function opened({ pod, secondsLeft }: NonNullable<NetworkPolicyStatus['openedByHand']>[number]): FoundProblem {
  const message = `flows that an operator added open pod ${pod} regardless of policies for another ${secondsLeft} s`;
  return { kind: 'policy.opened', about: pod, message, remedy: `ovs-ofctl -O OpenFlow15 del-flows br-int cookie=${overrideCookieMask}` };
}

/** `operatorOverrideCookie`, in the syntax of `ovs-ofctl`. */
const overrideCookieMask = '0x1fe0000000000/-1';
