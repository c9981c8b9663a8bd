import type { OneDirectionView, OnePolicyView, OneRuleView, PeerTermView, SelectedPodView } from '../../../api/policy.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { addressBits, type Cidr } from '../../../base/net/ip.ts';
import type { NetworkPolicy } from '../../../kubernetes/resources/network-policy.ts';
import { blockText, type PeerBlock } from '../../../policy/engine/identities/block-union.ts';
import { type IntentRule, type PolicyIntent, policyIntent } from '../../../policy/engine/intent.ts';
import { selectorText } from '../../../policy/engine/selector.ts';
import { namedPeersOf } from '../../../policy/engine/subject-rules.ts';
import type { Term } from '../../../policy/engine/term.ts';
import { type PolicyDirection, policyDirections } from '../../../policy/matrix/matrix.ts';
import { PEERS_MAX, type PolicyInForce, type PolicyStanding, portsText, RULES_MAX, termText } from './policed-pods.ts';

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
  const of = async (direction: PolicyDirection): Promise<OneDirectionView | undefined> => {
    const { [direction]: rules } = intent;
    if (!rules) return undefined;
    const shown: OneRuleView[] = [];
    for (const rule of rules.slice(0, RULES_MAX)) {
      if (turns.due) await turns.next();
      shown.push(ruleView(inForce, direction, rule));
    }
    return { rules: shown, moreRules: rules.length - shown.length };
  };
  const [ingress, egress] = [await of('ingress'), await of('egress')];
  return {
    name: intent.key,
    generation: policy.generation,
    ...(intent.pods ? { selects: selectorText(intent.pods) } : {}),
    pods: selectedPods(inForce, intent, standingOf),
    ...(ingress ? { ingress } : {}),
    ...(egress ? { egress } : {}),
    notUnderstood: [...(policy.faults ?? []), ...intent.refused],
  };
}

/** Pods of this node that it isolates; their state has its decisions. */
function selectedPods(
  { matrix, rulesOf }: PolicyInForce,
  { key }: PolicyIntent,
  standingOf: AskedPolicy['standingOf'],
): readonly SelectedPodView[] {
  const selected: SelectedPodView[] = [];
  for (const [pod, subject] of matrix.subjects) {
    const isIsolated = policyDirections.some((direction) => {
      const subjectClass = subject[direction];
      return subjectClass && rulesOf(direction, subjectClass)?.isolatedBy.includes(key);
    });
    if (isIsolated) selected.push({ name: pod, state: standingOf(pod)?.is ?? 'as before' });
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
