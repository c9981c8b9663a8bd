import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import type { ClusterTier, PolicyDirection, PolicyOutcome } from '../matrix/matrix.ts';
import type { ClusterIntentRule } from './cluster-intent.ts';
import type { IntentRule, PolicyIntent, PortSpan } from './intent.ts';
import { podsTerm, type Term } from './term.ts';

/** Policies that isolate a local pod in one direction, and the traffic that their rules allow. */
export interface SubjectRules {
  /** Text of the rules: equal for the same rules of the same policies only. */
  readonly text: string;
  /** Tier of cluster policies; absent: NetworkPolicies. */
  readonly tier?: ClusterTier;
  /** Policies as `namespace/name`, sorted; names of cluster policies in their order. */
  readonly isolatedBy: readonly string[];
  /**
   * Rules of NetworkPolicies: those without ports first, so that their decision needs no ports; then by policy and position. Rules of
   * cluster policies in their order.
   */
  readonly rules: readonly SubjectRule[];
  /** Answer to clients that NetworkPolicies deny, because no rule allows them; absent: as the node is configured. */
  readonly denial?: PolicyOutcome['denial'];
}

export interface SubjectRule {
  /** Name of the rule, such as `namespace/name spec.ingress[2]`. */
  readonly name: string;
  readonly peers: 'any' | readonly Term[];
  readonly ports: 'any' | readonly PortSpan[];
  /** Action of a rule of a cluster policy; absent: the rule allows. */
  readonly action?: ClusterIntentRule['action'];
  /** Answer to clients that this rule denies; absent: as the node is configured. */
  readonly denial?: PolicyOutcome['denial'];
  /** Peers with a named port. Each holding has the number of that port at the peer. */
  readonly namedPeers: readonly Term[];
}

/**
 * Returns the rules of a pod in one direction.
 *
 * @param policies policies that select the pod
 * @param ports ports of the pod by `name/protocol`
 * @param denial answer to denied clients in the pod's namespace; absent: as the node is configured
 * @returns undefined if no policy isolates the pod
 */
export function subjectRules(
  direction: PolicyDirection,
  policies: readonly PolicyIntent[],
  ports: Readonly<Record<string, number>>,
  denial?: PolicyOutcome['denial'],
): SubjectRules | undefined {
  const isolating = policies.filter((policy) => policy[direction]).sort((a, b) => (a.key < b.key ? -1 : 1));
  if (isolating.length === 0) return undefined;
  const all = isolating.flatMap(({ key, [direction]: rules = [] }) => rules.map((rule) => subjectRule(direction, key, rule, ports)));
  const matching = all.filter((rule) => rule.namedPeers.length > 0 || (rule.peers.length > 0 && rule.ports.length > 0));
  const rules = [...matching.filter((rule) => rule.ports === 'any'), ...matching.filter((rule) => rule.ports !== 'any')];
  const isolatedBy = isolating.map(({ key }) => key);
  return { text: textOf(isolatedBy, rules, denial), isolatedBy, rules, ...(denial && { denial }) };
}

export function subjectRule(direction: PolicyDirection, key: string, rule: IntentRule, own: Readonly<Record<string, number>>): SubjectRule {
  const { path, peers, ports, portNames } = rule;
  const name = `${key} ${path}`;
  if (ports === 'any' || portNames.length === 0) return { name, peers, ports, namedPeers: [] };
  if (direction === 'ingress') return { name, peers, ports: [...ports, ...portNames.flatMap((each) => spanOf(each, own))], namedPeers: [] };
  return { name, peers, ports, namedPeers: namedPeersOf(rule) };
}

/** Returns the peers of an egress rule, qualified by the names of its ports. */
export function namedPeersOf({ peers, portNames }: Pick<IntentRule, 'peers' | 'portNames'>): readonly Term[] {
  const withName = (term: Term, portName: string): readonly Term[] => {
    // A block has no named ports, and the named ports of unknown pods are not known.
    if (term.is === 'block' || term.is === 'nodes' || term.is === 'unknown pod') return [];
    return [term.is === 'any pod' ? podsTerm([], [], portName) : podsTerm(term.namespaces, term.pods, portName)];
  };
  return portNames.flatMap((portName) =>
    peers === 'any' ? [podsTerm([], [], portName)] : peers.flatMap((term) => withName(term, portName)),
  );
}

function spanOf(portName: string, own: Readonly<Record<string, number>>): readonly PortSpan[] {
  const port = Object.hasOwn(own, portName) ? own[portName] : undefined;
  return port === undefined ? [] : [{ protocol: protocolOf(portName), first: port, last: port }];
}

/** Returns the protocol of a named port. @param portName `http/TCP` */
export function protocolOf(portName: string): PortSpan['protocol'] {
  const protocol = portName.slice(portName.lastIndexOf('/') + 1);
  return protocol === 'UDP' || protocol === 'SCTP' ? protocol : 'TCP';
}

/** Reports whether the networks of a rule contain an address. */
export function isNamedBy({ peers }: SubjectRule, address: Ip): boolean {
  const isIn = (cidr: Cidr): boolean => cidr.family === address.family && cidrContains(cidr, address);
  const blocks = peers === 'any' ? [] : peers.flatMap((term) => (term.is === 'block' ? term.blocks : []));
  return blocks.some(({ cidr, except }) => isIn(cidr) && !except.some(isIn));
}

export function hasPort({ ports }: SubjectRule, { protocol, number }: { readonly protocol: string; readonly number: number }): boolean {
  return ports === 'any' || ports.some((span) => span.protocol === protocol && number >= span.first && number <= span.last);
}

/** Returns all terms that the rules use. */
export function termsOf({ rules }: SubjectRules): readonly Term[] {
  const terms = new Map<string, Term>();
  for (const { peers, namedPeers, ports } of rules) {
    if (peers !== 'any' && ports.length > 0) for (const term of peers) terms.set(term.text, term);
    for (const term of namedPeers) terms.set(term.text, term);
  }
  return [...terms.values()];
}

function textOf(isolatedBy: readonly string[], rules: readonly SubjectRule[], denial: SubjectRules['denial']): string {
  const terms = (all: readonly Term[]) => all.map(({ text }) => text);
  return JSON.stringify([
    isolatedBy,
    rules.map(({ name, peers, ports, namedPeers }) => [name, peers === 'any' ? 'any' : terms(peers), ports, terms(namedPeers)]),
    ...(denial ? [denial] : []),
  ]);
}
