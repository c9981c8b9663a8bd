import type { ClusterRank, DirectionPolicyView, NodePolicyView, PodPolicyView, PolicyRuleView } from '../../../api/policy.ts';
import type { ClusterNetworkPolicy } from '../../../kubernetes/resources/cluster-network-policy.ts';
import type { NetworkPolicy } from '../../../kubernetes/resources/network-policy.ts';
import { blockText } from '../../../policy/engine/identities/block-union.ts';
import { policyIntent } from '../../../policy/engine/intent.ts';
import type { SubjectRules } from '../../../policy/engine/subject-rules.ts';
import type { Term } from '../../../policy/engine/term.ts';
import { classesIn, type PolicyDirection, type PolicyMatrix, policyDirections, type SubjectClass } from '../../../policy/matrix/matrix.ts';

/** Maximum number of peers shown: a rule may have ten thousands, and a pod may have a thousand rules. */
export const PEERS_MAX = 50;
export const RULES_MAX = 200;

/** Part of the policies in force that is read. */
export interface PolicyInForce {
  readonly matrix: PolicyMatrix;
  rulesOf(direction: PolicyDirection, subject: SubjectClass): SubjectRules | undefined;
}

/** State that a pod's flows implement; undefined: nothing is decided since the agent started. */
export type PolicyStanding =
  | { readonly is: 'free' | 'policed' }
  | { readonly is: 'closed' | 'suspended'; readonly why: string }
  | undefined;

export function podPolicyView(
  { matrix, rulesOf }: PolicyInForce,
  name: string,
  addresses: readonly string[],
  standing: PolicyStanding,
): PodPolicyView {
  const subject = matrix.subjects.get(name);
  const of = (direction: PolicyDirection): DirectionPolicyView => {
    const none = { isolatedBy: [], rules: [], moreRules: 0 };
    if (standing?.is === 'closed') return { state: 'closed', why: standing.why, ...none };
    if (standing?.is === 'suspended') return { state: 'suspended', why: standing.why, ...none };
    if (!standing) return { state: 'as before', ...none };
    const rules = classesIn(subject, direction).flatMap((each) => rulesOf(direction, each) ?? []);
    return rules.length > 0 ? isolatedView(rules) : { state: 'free', ...none };
  };
  return { name, addresses, ingress: of('ingress'), egress: of('egress') };
}

/** Lists the policies and rules of all tiers, in their order. */
function isolatedView(tiers: readonly SubjectRules[]): DirectionPolicyView {
  const rules = tiers.flatMap((tier) => tier.rules).filter(isWritten);
  const shown = rules.slice(0, RULES_MAX).map(ruleView);
  return {
    state: 'isolated',
    isolatedBy: tiers.flatMap(({ isolatedBy }) => isolatedBy),
    rules: shown,
    moreRules: rules.length - shown.length,
  };
}

/** Reports whether a user wrote a rule: others deny unknown pods before a rule that denies or passes. */
function isWritten({ peers }: SubjectRules['rules'][number]): boolean {
  return peers === 'any' || peers.length === 0 || peers.some(({ is }) => is !== 'unknown pod');
}

function ruleView({ name, peers, ports, namedPeers }: SubjectRules['rules'][number]): PolicyRuleView {
  const texts = [...(peers === 'any' || ports.length === 0 ? [] : peers), ...namedPeers].flatMap(termTexts);
  return {
    name,
    peers: texts.slice(0, PEERS_MAX),
    morePeers: Math.max(0, texts.length - PEERS_MAX),
    ports: [...(ports === 'any' ? [] : ports.map(portsText)), ...new Set(namedPeers.flatMap(portNameOf))],
  };
}

/** One line for each block. */
function termTexts(term: Term): readonly string[] {
  return term.is === 'block' ? term.blocks.map((block) => `block ${blockText(block)}`) : [termText(term)];
}

/** An empty selector is not printed. */
export function termText({ text }: { readonly text: string }): string {
  return text.replace(/: (?=$| with ")/, '');
}

function portNameOf(term: SubjectRules['rules'][number]['namedPeers'][number]): readonly string[] {
  return term.is === 'pods' && term.portName !== undefined ? [term.portName] : [];
}

/** `TCP 80`, `TCP 80-90`, `TCP`. */
export function portsText({ protocol, first, last }: { readonly protocol: string; readonly first: number; readonly last: number }): string {
  if (first === 0 && last === 65_535) return protocol;
  return first === last ? `${protocol} ${first}` : `${protocol} ${first}-${last}`;
}

/** Policies by kind and name. */
interface KnownPolicies {
  readonly policies: Iterable<readonly [string, NetworkPolicy]>;
  readonly clusterPolicies: Iterable<readonly [string, ClusterNetworkPolicy]>;
}

/**
 * Policies that apply to pods of this node, and those that are not fully understood: NetworkPolicies of its pods' namespaces, and
 * ClusterNetworkPolicies.
 */
export function* nodePolicyViews(inForce: PolicyInForce, { policies, clusterPolicies }: KnownPolicies): Generator<NodePolicyView> {
  const { counts, namespaces } = podCounts(inForce);
  const countOf = (name: string) => ({ ingress: counts.ingress.get(name) ?? 0, egress: counts.egress.get(name) ?? 0 });
  for (const [name, policy] of policies) {
    if (!namespaces.has(policy.namespace)) continue;
    const { ingress, egress } = countOf(name);
    const notUnderstood = [...(policy.faults ?? []), ...policyIntent(policy).refused];
    if (ingress + egress + notUnderstood.length > 0) yield { name, ingress, egress, notUnderstood };
  }
  for (const [name, policy] of clusterPolicies) {
    const { ingress, egress } = countOf(name);
    const notUnderstood = policy.faults ?? [];
    if (ingress + egress + notUnderstood.length > 0) yield { name, cluster: rankOf(policy), ingress, egress, notUnderstood };
  }
}

/** Counts pods of this node by the policies of their classes, of all tiers. */
function podCounts({ matrix, rulesOf }: PolicyInForce) {
  const counts = { ingress: new Map<string, number>(), egress: new Map<string, number>() };
  const namespaces = new Set<string>();
  for (const [pod, subject] of matrix.subjects) {
    namespaces.add(pod.split('/', 1)[0] ?? '');
    for (const direction of policyDirections)
      for (const name of classesIn(subject, direction).flatMap((each) => rulesOf(direction, each)?.isolatedBy ?? []))
        counts[direction].set(name, (counts[direction].get(name) ?? 0) + 1);
  }
  return { counts, namespaces };
}

const tierNames = { admin: 'Admin', baseline: 'Baseline' } as const;

export function rankOf({ tier, priority }: Pick<ClusterNetworkPolicy, 'tier' | 'priority'>): ClusterRank {
  return { tier: tierNames[tier], priority };
}
