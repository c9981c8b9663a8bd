import { type Steps, tinyWork } from '../../../base/async/steps.ts';
import type { PolicyDirection } from '../../matrix/matrix.ts';
import { compareTexts } from '../selector.ts';
import type { BlockTerm, Term } from '../term.ts';
import type { PeerSet, TermHolding } from './peer-set.ts';

/** Namespaces whose policies have a term in their rules. */
type ClaimantsOf = (term: Term) => ReadonlySet<string>;

/** Rules of one namespace whose networks are denied: rules of the node distinguish more networks than there are numbers. */
export interface PeerShortage extends NetworkShare {
  readonly direction: PolicyDirection;
  readonly namespace: string;
  /** By name, sorted. */
  readonly rules: readonly string[];
}

interface SharesInput {
  /** All sets that addresses have, by every term in use. */
  readonly sets: Iterable<PeerSet>;
  /** As many sets can be told apart. */
  readonly most: number;
  readonly claimantsOf: ClaimantsOf;
}

/** A term with the number of sets that its namespace asks for up to it. */
interface Claim {
  readonly holding: TermHolding;
  readonly namespace: string;
  readonly demand: number;
}

/** Networks that the rules of one namespace distinguish, and how many it may whatever others do. */
export interface NetworkShare {
  readonly networks: number;
  readonly share: number;
}

/** The share of each namespace with blocks in its rules. With a rule for any pod each network may be two sets: the pods in it, and what else is in it. */
export function networkShares(terms: Iterable<Term>, { most, claimantsOf }: Omit<SharesInput, 'sets'>): ReadonlyMap<string, NetworkShare> {
  const networks = new Map<string, number>();
  let setsOfNetwork = 1;
  for (const term of terms) {
    if (term.is === 'any pod') setsOfNetwork = 2;
    if (term.is === 'block')
      for (const namespace of claimantsOf(term)) networks.set(namespace, (networks.get(namespace) ?? 0) + networksOf(term));
  }
  const share = Math.floor(most / setsOfNetwork / Math.max(1, networks.size));
  return new Map([...networks].map(([namespace, count]) => [namespace, { networks: count, share }]));
}

/**
 * Terms that have to be left out so that no more than `most` sets are left. Depends on the sets and their terms only, so that every agent of the node comes to the
 * same before and after a restart.
 *
 * Each namespace asks for its terms one after another, the cheapest first, and the one whose demand is lowest so far is served first: a namespace whose networks are
 * at most `most` divided by the number of namespaces is served whole, whatever others name. What the terms of one namespace cost is what their networks can divide,
 * or the sets they make by themselves if these are more.
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

/** Terms of one namespace, the cheapest first. */
function* claimsOf(namespace: string, holdings: ReadonlySet<TermHolding>, sets: readonly PeerSet[]): Steps<readonly Claim[]> {
  const order = [...holdings].sort((a, b) => costOf(a.term) - costOf(b.term) || compareTexts(a.text, b.text));
  const alone = yield* countsByPrefix(sets, order);
  let networks = 0;
  return order.map((holding, at) => {
    networks += costOf(holding.term);
    // Any pod: one term for all namespaces, first in each of them.
    return { holding, namespace, demand: holding.term.is === 'any pod' ? 0 : Math.max(networks, alone[at] ?? 0) };
  });
}

/** As many sets as a term may divide: one for each network that it names. */
function costOf(term: Term): number {
  if (term.is === 'any pod') return 0;
  return term.is === 'block' ? networksOf(term) : 1;
}

/** Networks that begin or end in a term. */
function networksOf({ blocks }: BlockTerm): number {
  return blocks.reduce((sum, { except }) => sum + 1 + except.length, 0);
}

function byDemand(a: Claim, b: Claim): number {
  return a.demand - b.demand || compareTexts(a.namespace, b.namespace) || compareTexts(a.holding.text, b.holding.text);
}

/** The places of terms of a set, as far as the set has them: `last` is the last of these. */
interface PrefixNode {
  readonly last: number;
  readonly next: Map<number, PrefixNode>;
  /** Where the longest-lasting set that begins so has its next term; infinite if one ends here. */
  until: number;
}

/** How many sets other than the empty one are left of `sets` by the first terms of an order: at each place, by the terms up to it. */
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

/** A node is a set by itself from the place of its last term to the last place at which a set that begins so still ends there. */
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
    `namespace ${namespace}, ${direction}: ${state} (${named}): its rules name ${networks} networks, ` +
    `more than its share of ${share} on this node; combine networks with the same ports into one rule`
  );
}
