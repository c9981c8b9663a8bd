import type { OneDirectionView, OnePolicyView, OneRuleView, PeerTermView, SelectedPodView } from '../../../api/policy.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { addressBits, type Cidr } from '../../../base/net/ip.ts';
import type { ClusterNetworkPolicy } from '../../../kubernetes/resources/cluster-network-policy.ts';
import type { NetworkPolicy } from '../../../kubernetes/resources/network-policy.ts';
import { type ClusterIntent, type ClusterIntentRule, clusterIntent } from '../../../policy/engine/cluster-intent.ts';
import { blockText, type PeerBlock } from '../../../policy/engine/identities/block-union.ts';
import { type IntentRule, policyIntent } from '../../../policy/engine/intent.ts';
import { selectorText } from '../../../policy/engine/selector.ts';
import { namedPeersOf } from '../../../policy/engine/subject-rules.ts';
import type { Term } from '../../../policy/engine/term.ts';
import { classesIn, type PolicyDirection, policyDirections } from '../../../policy/matrix/matrix.ts';
import { PEERS_MAX, type PolicyInForce, type PolicyStanding, portsText, RULES_MAX, rankOf, termText } from './policed-pods.ts';

/** Part of the policies in force that is read, with the members of their terms. */
export interface PolicyTermsInForce extends PolicyInForce {
  /** Undefined for a block, and for a term that no rule of a local pod has. */
  podsOf(direction: PolicyDirection, term: Term): number | undefined;
}

interface AskedPolicy {
  readonly policy: NetworkPolicy;
  /** Returns the state that a pod's flows implement, by `namespace/name`. */
  readonly standingOf: (pod: string) => PolicyStanding;
  /** Counting the members of the terms of a thousand rules takes time. */
  readonly turns: LoopTurns;
}

/** Explains one policy as this node understands it, and its effect here. */
export async function onePolicyView(inForce: PolicyTermsInForce, { policy, standingOf, turns }: AskedPolicy): Promise<OnePolicyView> {
  const intent = policyIntent(policy);
  return {
    name: intent.key,
    generation: policy.generation,
    ...(intent.pods ? { selects: selectorText(intent.pods) } : {}),
    pods: selectedPods(inForce, intent.key, standingOf),
    ...(await rulesInBoth(inForce, intent, turns)),
    notUnderstood: [...(policy.faults ?? []), ...intent.refused],
  };
}

/** The same of a ClusterNetworkPolicy. */
export async function oneClusterPolicyView(
  inForce: PolicyTermsInForce,
  { policy, standingOf, turns }: Omit<AskedPolicy, 'policy'> & { readonly policy: ClusterNetworkPolicy },
): Promise<OnePolicyView> {
  const { key, subject, ingress, egress } = clusterIntent(policy);
  const rules = { ...(ingress.length > 0 ? { ingress } : {}), ...(egress.length > 0 ? { egress } : {}) };
  return {
    name: key,
    cluster: rankOf(policy),
    generation: policy.generation,
    ...(subject ? { selects: subjectText(subject) } : {}),
    pods: selectedPods(inForce, key, standingOf),
    ...(await rulesInBoth(inForce, rules, turns)),
    notUnderstood: policy.faults ?? [],
  };
}

function subjectText({ namespaces, pods }: NonNullable<ClusterIntent['subject']>): string {
  const parts = [
    ...(pods.length > 0 ? [selectorText(pods)] : []),
    ...(namespaces.length > 0 ? [`namespace ${selectorText(namespaces)}`] : []),
  ];
  return parts.join('; ');
}

type RulesByDirection = Readonly<Partial<Record<PolicyDirection, readonly (IntentRule | ClusterIntentRule)[]>>>;

/** Shows the rules of both directions; absent for a direction that the policy does not concern. */
async function rulesInBoth(
  inForce: PolicyTermsInForce,
  rules: RulesByDirection,
  turns: LoopTurns,
): Promise<Pick<OnePolicyView, PolicyDirection>> {
  const of = async (direction: PolicyDirection): Promise<OneDirectionView | undefined> => {
    const { [direction]: all } = rules;
    if (!all) return undefined;
    const shown: OneRuleView[] = [];
    for (const rule of all.slice(0, RULES_MAX)) {
      if (turns.due) await turns.next();
      shown.push({ ...ruleView(inForce, direction, rule), ...('action' in rule ? { action: actionNames[rule.action] } : {}) });
    }
    return { rules: shown, moreRules: all.length - shown.length };
  };
  const [ingress, egress] = [await of('ingress'), await of('egress')];
  return { ...(ingress ? { ingress } : {}), ...(egress ? { egress } : {}) };
}

const actionNames = { accept: 'Accept', deny: 'Deny', pass: 'Pass' } as const;

/** Pods of this node that it applies to; their state has its decisions. */
function selectedPods({ matrix, rulesOf }: PolicyInForce, key: string, standingOf: AskedPolicy['standingOf']): readonly SelectedPodView[] {
  const selected: SelectedPodView[] = [];
  for (const [pod, subject] of matrix.subjects) {
    const isOfPolicy = policyDirections.some((direction) =>
      classesIn(subject, direction).some((each) => rulesOf(direction, each)?.isolatedBy.includes(key)),
    );
    if (isOfPolicy) selected.push({ name: pod, state: standingOf(pod)?.is ?? 'as before' });
  }
  return selected.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function ruleView(inForce: PolicyTermsInForce, direction: PolicyDirection, { path, peers, ports, portNames }: IntentRule): OneRuleView {
  const named = direction === 'egress' && ports !== 'any' ? namedPeersOf({ peers, portNames }) : [];
  // Peers of a rule that has only named ports are listed by these names.
  const plain = peers !== 'any' && (ports === 'any' || ports.length > 0 || named.length === 0) ? peers : [];
  const terms = [...plain, ...named];
  const views = terms.flatMap((term) => peerViews(inForce, direction, term));
  const isAny = peers === 'any' && (ports === 'any' || ports.length > 0 || named.length === 0);
  return {
    path,
    peers: isAny ? 'any' : views.slice(0, PEERS_MAX).map((view) => view()),
    morePeers: isAny ? 0 : Math.max(0, views.length - PEERS_MAX),
    ports: ports === 'any' ? 'any' : [...ports.map(portsText), ...portNames],
  };
}

/** One line for each block, and one for any other term; each is made when it is shown. */
function peerViews(inForce: PolicyTermsInForce, direction: PolicyDirection, term: Term): readonly (() => PeerTermView)[] {
  if (term.is === 'block')
    return term.blocks.map((block) => () => ({ text: `block ${blockText(block)}`, addresses: String(addressesIn(block)) }));
  return [
    () => {
      const pods = inForce.podsOf(direction, term);
      return { text: termText(term), ...(pods === undefined ? {} : { pods }) };
    },
  ];
}

function addressesIn({ cidr, except }: PeerBlock): bigint {
  const size = ({ family, prefixLength }: Cidr): bigint => 1n << BigInt(addressBits(family) - prefixLength);
  return except.reduce((rest, each) => rest - size(each), size(cidr));
}
