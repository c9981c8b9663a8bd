import { parseCidr } from '../../base/net/ip.ts';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule } from '../../kubernetes/resources/network-policy.ts';
import type { DecidedRange, PolicyDirection } from '../matrix/matrix.ts';
import type { MentionedNames } from './kinds.ts';
import { type Selector, selectorOf } from './selector.ts';
import { anyPod, blockTerm, podsTerm, type Term } from './term.ts';

/** NetworkPolicy in normal form, as the compiler needs it. */
export interface PolicyIntent {
  /** `namespace/name`. */
  readonly key: string;
  readonly namespace: string;
  /** Pods of the policy; undefined if it selects nothing. */
  readonly pods: Selector | undefined;
  /** Rules for ingress; absent if the policy does not isolate its pods in this direction. */
  readonly ingress?: readonly IntentRule[];
  readonly egress?: readonly IntentRule[];
  /** Descriptions of the rules that exceed a limit and therefore allow nothing. */
  readonly refused: readonly string[];
}

/** Traffic that a rule allows. An empty list matches nothing. */
export interface IntentRule {
  /** `spec.ingress[2]`. */
  readonly path: string;
  readonly peers: 'any' | readonly Term[];
  readonly ports: 'any' | readonly PortSpan[];
  /** Names of ports, such as `http/TCP`: of the subject for ingress, of each peer for egress. */
  readonly portNames: readonly string[];
}

export type PortSpan = Pick<DecidedRange, 'protocol' | 'first' | 'last'>;

export function policyIntent(policy: NetworkPolicy): PolicyIntent {
  const refused: string[] = [];
  const rules = (direction: PolicyDirection) => {
    const list = policy[direction];
    return list ? { [direction]: rulesOf(policy, direction, list, refused) } : {};
  };
  return {
    key: `${policy.namespace}/${policy.name}`,
    namespace: policy.namespace,
    pods: selectorOf(policy.podSelector),
    ...rules('ingress'),
    ...rules('egress'),
    refused,
  };
}

/** Returns the labels and port names that a policy uses to select its peers. */
export function mentionedNames({ ingress = [], egress = [] }: NetworkPolicy): MentionedNames {
  const peers = [...ingress, ...egress].flatMap((rule) => (rule.peers === 'any' ? [] : rule.peers));
  const ports = egress.flatMap((rule) => (rule.ports === 'any' ? [] : rule.ports.flatMap(nameOf)));
  return { labels: new Set(peers.flatMap((peer) => ('cidr' in peer ? [] : peer.pods.map(({ key }) => key)))), ports: new Set(ports) };
}

function rulesOf(
  { namespace }: NetworkPolicy,
  direction: PolicyDirection,
  rules: readonly NetworkPolicyRule[],
  refused: string[],
): readonly IntentRule[] {
  return rules.map(({ peers, ports, refused: limit }, at): IntentRule => {
    const path = `spec.${direction}[${at}]`;
    if (limit !== undefined) {
      refused.push(`${path}: ${limit}`);
      return { path, peers: [], ports: [], portNames: [] };
    }
    return {
      path,
      peers: peers === 'any' ? 'any' : termsOf(namespace, peers),
      ports: ports === 'any' ? 'any' : ports.flatMap(spanOf),
      portNames: ports === 'any' ? [] : [...new Set(ports.flatMap(nameOf))].sort(),
    };
  });
}

/** Merges all blocks of a rule into one term, at the place of the first block: no rule distinguishes them. */
function termsOf(namespace: string, peers: readonly NetworkPolicyPeer[]): readonly Term[] {
  const terms = new Map<string, Term>();
  const isBlock = (peer: NetworkPolicyPeer) => 'cidr' in peer;
  const blocks = peers.flatMap((peer) => ('cidr' in peer ? [{ cidr: parseCidr(peer.cidr), except: peer.except.map(parseCidr) }] : []));
  const first = peers.findIndex(isBlock);
  for (const [at, peer] of peers.entries()) {
    const term = 'cidr' in peer ? (at === first ? blockTerm(blocks) : undefined) : termOf(namespace, peer);
    if (term) terms.set(term.text, term);
  }
  return [...terms.values()];
}

/** Returns the term of a peer; undefined if it can match nothing. */
function termOf(namespace: string, peer: Exclude<NetworkPolicyPeer, { readonly cidr: string }>): Term | undefined {
  const pods = selectorOf(peer.pods);
  const namespaces = peer.namespaces ? selectorOf(peer.namespaces) : namespace;
  if (!pods || namespaces === undefined) return undefined;
  return namespaces.length === 0 && typeof namespaces !== 'string' && pods.length === 0 ? anyPod : podsTerm(namespaces, pods);
}

function spanOf({ protocol, port, endPort }: NetworkPolicyPort): readonly PortSpan[] {
  if (port === undefined) return [{ protocol, first: 0, last: 65_535 }];
  return typeof port === 'number' ? [{ protocol, first: port, last: endPort ?? port }] : [];
}

function nameOf({ protocol, port }: NetworkPolicyPort): readonly string[] {
  return typeof port === 'string' ? [`${port}/${protocol}`] : [];
}
