import { parseCidr } from '../../base/net/ip.ts';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule } from '../../kubernetes/resources/network-policy.ts';
import type { DecidedRange, PolicyDirection } from '../matrix/matrix.ts';
import type { MentionedNames } from './kinds.ts';
import { type Selector, selectorOf } from './selector.ts';
import { anyPod, blockTerm, podsTerm, type Term } from './term.ts';

/** A NetworkPolicy, as the compiler takes it: selectors and peers in normal form. */
export interface PolicyIntent {
  /** `namespace/name`. */
  readonly key: string;
  readonly namespace: string;
  /** Undefined: it selects nothing. */
  readonly pods: Selector | undefined;
  /** Absent: the policy does not isolate its pods in this direction. */
  readonly ingress?: readonly IntentRule[];
  readonly egress?: readonly IntentRule[];
  /** What of the policy is beyond the limits and allows nothing, in words. */
  readonly refused: readonly string[];
}

/** What a rule lets in or out. An empty list matches nothing. */
export interface IntentRule {
  /** `spec.ingress[2]`. */
  readonly path: string;
  readonly peers: 'any' | readonly Term[];
  readonly ports: 'any' | readonly PortSpan[];
  /** Names of ports, `http/TCP`: of the subject for ingress, of each peer for egress. */
  readonly portNames: readonly string[];
}

export type PortSpan = Pick<DecidedRange, 'protocol' | 'first' | 'last'>;

/**
 * What one policy may ask for in a direction. Blocks that lie in each other make classes of addresses as many times as there are rules, and every user of a
 * namespace may write policies: memory and time are the node's.
 */
const intentLimits = { rules: 1_000, networks: 20_000, peersOfRule: 20_000, portsOfRule: 1_000 } as const;

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

/** What a policy looks at, of the pods that are its peers. */
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
  let networks = 0;
  return rules.map(({ peers, ports }, at): IntentRule => {
    const path = `spec.${direction}[${at}]`;
    const refuse = (what: string): IntentRule => {
      refused.push(`${path}: ${what}`);
      return { path, peers: [], ports: [], portNames: [] };
    };
    networks += peers === 'any' ? 0 : peers.reduce((sum, peer) => sum + ('cidr' in peer ? 1 + peer.except.length : 0), 0);
    if (at >= intentLimits.rules) return refuse(`more than ${intentLimits.rules} rules`);
    if (networks > intentLimits.networks) return refuse(`more than ${intentLimits.networks} networks in the rules up to this one`);
    if (peers.length > intentLimits.peersOfRule) return refuse(`more than ${intentLimits.peersOfRule} peers`);
    if (ports.length > intentLimits.portsOfRule) return refuse(`more than ${intentLimits.portsOfRule} ports`);
    return {
      path,
      peers: peers === 'any' ? 'any' : termsOf(namespace, peers),
      ports: ports === 'any' ? 'any' : ports.flatMap(spanOf),
      portNames: ports === 'any' ? [] : [...new Set(ports.flatMap(nameOf))].sort(),
    };
  });
}

/** All blocks of a rule are one term, at the place of the first: no rule distinguishes them. */
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

/** Undefined: nothing can match. */
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
