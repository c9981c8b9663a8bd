import { type Steps, tinyWork } from '../../../base/async/steps.ts';
import type { PolicyDirection } from '../../matrix/matrix.ts';
import { compareTexts } from '../selector.ts';
import type { BlockTerm, Term } from '../term.ts';
import type { PeerSet, TermHolding } from './peer-set.ts';

/** Namespaces whose policies have a term in their rules. */
type ClaimantsOf = (term: Term) => ReadonlySet<string>;

/** Rules of one namespace whose networks are denied, because the rules of the node distinguish more networks than there are numbers. */
export interface PeerShortage extends NetworkShare {
  readonly direction: PolicyDirection;
  /** Empty for cluster policies. */
  readonly namespace: string;
  /** Names of the rules, sorted. */
  readonly rules: readonly string[];
}

interface SharesInput {
  /** Sets of all addresses, by all terms in use. */
  readonly sets: Iterable<PeerSet>;
  /** Maximum number of sets that can be distinguished. */
  readonly most: number;
  readonly claimantsOf: ClaimantsOf;
}

/** Term with the number of sets that its namespace needs up to and including it. */
interface Claim {
  readonly holding: TermHolding;
  readonly namespace: string;
  readonly demand: number;
}

/**
 * Number of networks that the rules of one namespace distinguish, and the number that it may distinguish regardless of other namespaces.
 */
export interface NetworkShare {
  readonly networks: number;
  readonly share: number;
}

/**
 * Returns the share of each namespace with blocks in its rules. If a rule matches any pod, each network may be two sets: the pods in it,
 * and its other addresses.
 */
export function networkShares(terms: Iterable<Term>, { most, claimantsOf }: Omit<SharesInput, 'sets'>): ReadonlyMap<string, NetworkShare> {
  const networks = new Map<string, number>();
  let setsOfNetwork = 1;
  for (const term of terms) {
    if (term.is === 'any pod' || term.is === 'unknown pod') setsOfNetwork = 2;
    if (term.is === 'block')
      for (const namespace of claimantsOf(term)) networks.set(namespace, (networks.get(namespace) ?? 0) + networksOf(term));
  }
  const share = Math.floor(most / setsOfNetwork / Math.max(1, networks.size));
  return new Map([...networks].map(([namespace, count]) => [namespace, { networks: count, share }]));
}

/**
 * Returns the terms to leave out so that at most `most` sets remain. The result depends only on the sets and their terms, so every agent of
 * the node computes the same before and after a restart.
 *
 * Each namespace requests its terms one after another, the cheapest first. The namespace with the lowest demand so far is served first: a
 * namespace whose networks are at most `most` divided by the number of namespaces is served completely, whatever other namespaces name. The
 * cost of the terms of one namespace is the number of sets into which their networks can divide, or the number of sets that they make alone
 * if that is larger.
 */
export function* termsBeyond({ sets, most, claimantsOf }: SharesInput): Steps<ReadonlySet<TermHolding>> {
  const all = [...sets];
  const order = yield* servedInOrder(all, claimantsOf);
  const counts = yield* countsByPrefix(all, order);
  const firstBeyond = counts.findIndex((count) => count > most);
  return new Set(firstBeyond < 0 ? [] : order.slice(firstBeyond));
}

function* servedInOrder(sets: readonly PeerSet[], claimantsOf: ClaimantsOf): Steps<readonly TermHolding[]> {
  const byNamespace = new Map<string, Set<TermHolding>>();
  const seen = new Set<TermHolding>();
  for (const { holdings } of sets) {
    for (const holding of holdings) {
      if (seen.has(holding)) continue;
      seen.add(holding);
      for (const namespace of claimantsOf(holding.term)) byNamespace.set(namespace, (byNamespace.get(namespace) ?? new Set()).add(holding));
    }
    yield;
  }
  const first = new Map<TermHolding, Claim>();
  for (const [namespace, holdings] of byNamespace)
    for (const claim of yield* claimsOf(namespace, holdings, sets)) {
      const known = first.get(claim.holding);
      if (!known || byDemand(claim, known) < 0) first.set(claim.holding, claim);
    }
  const unclaimed = [...seen].filter((holding) => !first.has(holding)).map((holding): Claim => ({ holding, namespace: '', demand: 0 }));
  return [...first.values(), ...unclaimed].sort(byDemand).map(({ holding }) => holding);
}

/** Returns the terms of one namespace, the cheapest first. */
function* claimsOf(namespace: string, holdings: ReadonlySet<TermHolding>, sets: readonly PeerSet[]): Steps<readonly Claim[]> {
  const order = [...holdings].sort((a, b) => costOf(a.term) - costOf(b.term) || compareTexts(a.text, b.text));
  const alone = yield* countsByPrefix(sets, order);
  let networks = 0;
  return order.map((holding, at) => {
    networks += costOf(holding.term);
    // "Any pod" is one term, as is "unknown pod", for all namespaces, and the first term of each of them.
    return { holding, namespace, demand: isShared(holding.term) ? 0 : Math.max(networks, alone[at] ?? 0) };
  });
}

/** Maximum number of sets that a term may divide: one for each network that it names. */
function costOf(term: Term): number {
  if (isShared(term)) return 0;
  return term.is === 'block' ? networksOf(term) : 1;
}

function isShared({ is }: Term): boolean {
  return is === 'any pod' || is === 'unknown pod';
}

/** Number of networks that begin or end in a term. */
function networksOf({ blocks }: BlockTerm): number {
  return blocks.reduce((sum, { except }) => sum + 1 + except.length, 0);
}

function byDemand(a: Claim, b: Claim): number {
  return a.demand - b.demand || compareTexts(a.namespace, b.namespace) || compareTexts(a.holding.text, b.holding.text);
}

/** Node of a prefix tree over the sorted term positions of sets; `last` is the position of its last term. */
interface PrefixNode {
  readonly last: number;
  readonly next: Map<number, PrefixNode>;
  /** Largest position of the next term among the sets with this prefix; infinite if a set ends here. */
  until: number;
}

/**
 * Returns, for each position of an order, the number of distinct non-empty sets that remain of `sets` if only the terms up to this position
 * are kept.
 */
function* countsByPrefix(sets: readonly PeerSet[], order: readonly TermHolding[]): Steps<readonly number[]> {
  const places = new Map(order.map((holding, at) => [holding, at]));
  const root: PrefixNode = { last: -1, next: new Map(), until: 0 };
  const nodes: PrefixNode[] = [];
  for (const { holdings } of sets) {
    let node = root;
    for (const place of holdings.flatMap((holding) => places.get(holding) ?? []).sort((a, b) => a - b)) {
      node.until = Math.max(node.until, place);
      const known: PrefixNode = node.next.get(place) ?? { last: place, next: new Map(), until: 0 };
      if (!node.next.has(place)) nodes.push(known);
      node.next.set(place, known);
      node = known;
    }
    node.until = Number.POSITIVE_INFINITY;
    yield;
  }
  return yield* summed(nodes, order.length);
}

/**
 * Sums over positions. A node counts as one set from the position of its last term until the last position at which a set with this prefix
 * still ends there.
 */
function* summed(nodes: readonly PrefixNode[], length: number): Steps<readonly number[]> {
  const changes = new Array<number>(length + 1).fill(0);
  let work = 0;
  for (const { last, until } of nodes) {
    changes[last] = (changes[last] ?? 0) + 1;
    if (until < length) changes[until] = (changes[until] ?? 0) - 1;
    if (++work % tinyWork === 0) yield;
  }
  let sum = 0;
  return changes.slice(0, length).map((change) => (sum += change));
}

/** State, cause and remedy, for operators. */
export function shortageText({ direction, namespace, rules, networks, share }: PeerShortage): string {
  const [first = '', ...others] = rules;
  const named = others.length === 0 ? first : `${first} and ${others.length} more`;
  const state = rules.length === 1 ? 'networks of 1 rule are denied' : `networks of ${rules.length} rules are denied`;
  return (
    `${namespace === '' ? 'cluster policies' : `namespace ${namespace}`}, ${direction}: ${state} (${named}): its rules name ${networks} networks, ` +
    `more than its share of ${share} on this node; combine networks with the same ports into one rule`
  );
}
