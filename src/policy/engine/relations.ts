import type { Steps } from '../../base/async/steps.ts';
import {
  type ClusterTier,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyOutcome,
  relationKey,
  type SubjectClass,
  unnumbered,
} from '../matrix/matrix.ts';
import { type AppliedRule, decisionOf, decisionText } from './decision.ts';
import type { PeerSet, TermHolding } from './identities/peer-set.ts';
import type { PortSpan } from './intent.ts';
import { addTo, removeFrom } from './kinds.ts';
import { SteadyRows } from './published-rows.ts';
import { protocolOf, type SubjectRule, type SubjectRules, termsOf } from './subject-rules.ts';
import type { Term } from './term.ts';

/** Identity that addresses have. Equal identities are the same object. */
export class Pair implements PeerIdentity {
  readonly coarse: PeerSet;
  readonly fine: PeerSet;
  /** Number of addresses and networks with this identity, and of finer pairs with the same coarse part. */
  uses = 0;
  readonly rows = new Map<string, SubjectState>();

  constructor(coarse: PeerSet, fine: PeerSet) {
    this.coarse = coarse;
    this.fine = fine;
  }
}

/** Rule that contains a term. `isNamed` is true if the term is there for a named port. */
interface RuleOfTerm {
  readonly rule: number;
  readonly isNamed: boolean;
}

class SubjectState implements SubjectClass {
  readonly id: number;
  readonly text: string;
  readonly tier?: ClusterTier;
  readonly isolatedBy: readonly string[];
  readonly rules: SubjectRules;
  readonly terms: readonly Term[];
  uses = 0;
  /** True if readers of the matrix have its rows. */
  isPublished = false;
  readonly rows = new Map<string, Pair | undefined>();
  readonly #byTerm = new Map<string, RuleOfTerm[]>();
  readonly #outcomes: readonly PolicyOutcome[];
  readonly #otherwise: PolicyOutcome;
  /** Decision for addresses without a number; undefined if they are treated like addresses that no term matches. */
  readonly ofUnnumbered: PolicyDecision | undefined;
  /** Decisions by the rules that apply, and by text, so that equal decisions are the same object. */
  readonly #decided = new Map<string, PolicyDecision>();
  readonly #byText = new Map<string, PolicyDecision>();

  constructor(id: number, rules: SubjectRules) {
    this.id = id;
    this.text = rules.text;
    this.isolatedBy = rules.isolatedBy;
    this.rules = rules;
    this.terms = termsOf(rules);
    if (rules.tier) this.tier = rules.tier;
    this.#otherwise = otherwiseOf(rules);
    this.#outcomes = rules.rules.map((rule) => outcomeOf(rule, this.#otherwise));
    const denied: PolicyDecision = { ranges: [], otherwise: { verdict: 'deny', by: rules.isolatedBy }, ...tierOf(rules) };
    this.ofUnnumbered = isClosing(rules) ? denied : undefined;
    for (const [rule, { peers, namedPeers }] of rules.rules.entries()) {
      for (const { text } of peers === 'any' ? [] : peers) this.#point(text, { rule, isNamed: false });
      for (const { text } of namedPeers) this.#point(text, { rule, isNamed: true });
    }
  }

  /** Returns the decision for addresses that have exactly these holdings. */
  decide(...sets: readonly PeerSet[]): PolicyDecision {
    const applied = new Map<number, { isPlain: boolean; readonly spans: PortSpan[] }>();
    const at = (rule: number) => {
      const known = applied.get(rule) ?? { isPlain: this.rules.rules[rule]?.peers === 'any', spans: [] };
      applied.set(rule, known);
      return known;
    };
    for (const { holdings } of sets)
      for (const holding of holdings)
        for (const { rule, isNamed } of this.#byTerm.get(holding.term.text) ?? [])
          if (isNamed) at(rule).spans.push(...namedSpan(holding));
          else at(rule).isPlain = true;
    const key = [...applied]
      .sort(([a], [b]) => a - b)
      .map(
        ([rule, { isPlain, spans }]) => `${rule}${isPlain ? '+' : '-'}${spans.map(({ protocol, first }) => `${protocol}${first}`).sort()}`,
      )
      .join(';');
    const known = this.#decided.get(key);
    if (known) return known;
    const decision = this.#decisionOf(applied);
    this.#decided.set(key, decision);
    return decision;
  }

  #decisionOf(applied: ReadonlyMap<number, { readonly isPlain: boolean; readonly spans: readonly PortSpan[] }>): PolicyDecision {
    const rules = this.rules.rules.flatMap(({ peers, ports }, at): readonly AppliedRule[] => {
      const { isPlain = peers === 'any', spans = [] } = applied.get(at) ?? {};
      const outcome = this.#outcomes[at];
      if (!outcome || (!isPlain && spans.length === 0)) return [];
      if (ports === 'any') return [{ ports, outcome }];
      return [{ ports: isPlain ? [...ports, ...spans] : spans, outcome }];
    });
    const decision = decisionOf(rules, this.#otherwise, this.tier);
    const text = decisionText(decision);
    const equal = this.#byText.get(text) ?? decision;
    this.#byText.set(text, equal);
    return equal;
  }

  #point(term: string, rule: RuleOfTerm): void {
    const rules = this.#byTerm.get(term);
    if (rules) rules.push(rule);
    else this.#byTerm.set(term, [rule]);
  }
}

/** Returns the namespace of a policy; empty for a cluster policy. @param policy `namespace/name`, or `name` */
export function namespaceOf(policy: string): string {
  return policy.slice(0, Math.max(0, policy.indexOf('/')));
}

function tierOf({ tier }: SubjectRules): { readonly tier?: ClusterTier } {
  return tier ? { tier } : {};
}

/** Returns the outcome of connections that no rule matches. */
function otherwiseOf({ tier, isolatedBy, denial }: SubjectRules): PolicyOutcome {
  if (!tier) return { verdict: 'deny', by: isolatedBy, ...(denial && { denial }) };
  return { verdict: tier === 'admin' ? 'next' : 'allow', by: [] };
}

function outcomeOf({ name, action = 'accept', denial }: SubjectRule, otherwise: PolicyOutcome): PolicyOutcome {
  // Pass skips the rest of its tier, as if no rule matched.
  return action === 'pass' ? otherwise : { verdict: action === 'accept' ? 'allow' : 'deny', by: [name], ...(denial && { denial }) };
}

/** Reports whether a rule denies or passes: what it cannot distinguish must not be allowed instead. */
function isClosing({ rules }: SubjectRules): boolean {
  return rules.some(({ action = 'accept' }) => action !== 'accept');
}

function holdingsOf({ coarse, fine }: Pair): readonly TermHolding[] {
  return [...coarse.holdings, ...fine.holdings];
}

function namedSpan({ term, port }: TermHolding): readonly PortSpan[] {
  if (term.is !== 'pods' || term.portName === undefined || port === undefined) return [];
  return [{ protocol: protocolOf(term.portName), first: port, last: port }];
}

/** Decisions of one direction: a row for a class of local pods and an identity of addresses, if it differs from the less specific row. */
export class Relations {
  readonly rows = new SteadyRows<PolicyDecision>();
  readonly #subjects = new Map<string, SubjectState>();
  /** Classes added since the last publication. */
  #added: SubjectState[] = [];
  #removed = new Map<string, SubjectState>();
  readonly #pairs = new Map<string, Pair>();
  readonly #subjectsOfTerm = new Map<string, Set<SubjectState>>();
  readonly #pairsOfTerm = new Map<string, Set<Pair>>();
  readonly #empty: PeerSet;
  #lastId = 0;
  /** Changes whenever a class of local pods with rules is added or removed. */
  #generation = 0;

  /** Creates an empty table. @param empty the empty set */
  constructor(empty: PeerSet) {
    this.#empty = empty;
  }

  /** Counts one use more of a class. @param onNew called with each term of the class if no local pod had this class */
  *acquireSubject(rules: SubjectRules, onNew: (term: Term) => void): Steps<SubjectClass> {
    const known = this.#subjects.get(rules.text);
    const subject = known ?? new SubjectState(++this.#lastId, rules);
    subject.uses++;
    if (known) return subject;
    this.#subjects.set(rules.text, subject);
    this.#added.push(subject);
    this.#generation++;
    this.rows.set(relationKey(subject), subject.decide());
    subject.rows.set(relationKey(subject), undefined);
    if (subject.ofUnnumbered) {
      this.rows.set(relationKey(subject, unnumbered), subject.ofUnnumbered);
      subject.rows.set(relationKey(subject, unnumbered), undefined);
    }
    const pairs = new Set<Pair>();
    for (const term of subject.terms) {
      onNew(term);
      addTo(this.#subjectsOfTerm, term.text, subject);
      yield;
      for (const pair of this.#pairsOfTerm.get(term.text) ?? []) {
        pairs.add(pair);
        yield;
      }
    }
    for (const pair of pairs) {
      this.#relate(subject, pair);
      yield;
    }
    return subject;
  }

  /** Counts one use less of a class. @param onGone called with each term of the class if no local pod has this class any more */
  *releaseSubject({ text }: SubjectClass, onGone: (term: Term) => void): Steps {
    const subject = this.#subjects.get(text);
    if (!subject || --subject.uses > 0) return;
    this.#subjects.delete(text);
    this.#generation++;
    if (subject.isPublished) this.#removed.set(text, subject);
    for (const term of subject.terms) {
      onGone(term);
      removeFrom(this.#subjectsOfTerm, term.text, subject);
      yield;
    }
    for (const [key, pair] of subject.rows) {
      pair?.rows.delete(key);
      this.rows.delete(key);
      yield;
    }
  }

  /** Counts one use more of a class that readers know and that a pod has; returns undefined for any other class. */
  acquirePublished({ text }: SubjectRules): SubjectClass | undefined {
    const subject = this.#subjects.get(text);
    if (!subject?.isPublished) return undefined;
    subject.uses++;
    return subject;
  }

  /** Makes the rows visible to readers. */
  publish(): void {
    for (const subject of this.#added) subject.isPublished = true;
    this.#added = [];
    this.#removed.clear();
    this.rows.publish();
  }

  /** Returns the rules of a class; undefined if no local pod has it. */
  rulesOf({ text }: SubjectClass): SubjectRules | undefined {
    return (this.#subjects.get(text) ?? this.#removed.get(text))?.rules;
  }

  /** Number that changes when a class of local pods is added or removed. */
  get generation(): number {
    return this.#generation;
  }

  /** Namespaces of the policies that contain a term; empty text for cluster policies. */
  namespacesOf({ text }: Term): ReadonlySet<string> {
    return new Set(
      [...(this.#subjectsOfTerm.get(text) ?? [])].flatMap(({ isolatedBy: [first] }) => (first === undefined ? [] : namespaceOf(first))),
    );
  }

  /** Reports whether a class that contains a term has rules that deny or pass. */
  isClosing({ text }: Term): boolean {
    return [...(this.#subjectsOfTerm.get(text) ?? [])].some(({ ofUnnumbered }) => ofUnnumbered !== undefined);
  }

  /** Names of the rules that contain a term. */
  rulesWith({ text }: Term): ReadonlySet<string> {
    const names = new Set<string>();
    for (const { rules } of this.#subjectsOfTerm.get(text) ?? [])
      for (const { name, peers, namedPeers } of rules.rules)
        if ([...(peers === 'any' ? [] : peers), ...namedPeers].some((term) => term.text === text)) names.add(name);
    return names;
  }

  acquirePair(coarse: PeerSet, fine: PeerSet): Pair {
    const key = `${coarse.id} ${fine.id}`;
    const known = this.#pairs.get(key);
    const pair = known ?? new Pair(coarse, fine);
    pair.uses++;
    if (known) return pair;
    this.#pairs.set(key, pair);
    if (fine.holdings.length > 0) this.acquirePair(coarse, this.#empty);
    const subjects = new Set<SubjectState>();
    for (const { term } of holdingsOf(pair)) {
      addTo(this.#pairsOfTerm, term.text, pair);
      for (const subject of this.#subjectsOfTerm.get(term.text) ?? []) subjects.add(subject);
    }
    for (const subject of subjects) this.#relate(subject, pair);
    return pair;
  }

  releasePair(pair: Pair): void {
    if (--pair.uses > 0) return;
    const { coarse, fine } = pair;
    this.#pairs.delete(`${coarse.id} ${fine.id}`);
    for (const { term } of holdingsOf(pair)) removeFrom(this.#pairsOfTerm, term.text, pair);
    for (const [key, subject] of pair.rows) {
      subject.rows.delete(key);
      this.rows.delete(key);
    }
    const base = fine.holdings.length > 0 ? this.#pairs.get(`${coarse.id} 0`) : undefined;
    if (base) this.releasePair(base);
  }

  *setsInUse(): Iterable<PeerSet> {
    for (const { coarse, fine } of this.#pairs.values()) {
      yield coarse;
      yield fine;
    }
  }

  /** Writes a row if the decision differs from that of the less specific row. */
  #relate(subject: SubjectState, pair: Pair): void {
    const { coarse, fine } = pair;
    const isFine = fine.holdings.length > 0;
    const decision = isFine ? subject.decide(coarse, fine) : subject.decide(coarse);
    const without = isFine ? subject.decide(coarse) : subject.decide();
    if (decision === without) return;
    const key = isFine ? relationKey(subject, coarse, fine) : relationKey(subject, coarse);
    this.rows.set(key, decision);
    pair.rows.set(key, subject);
    subject.rows.set(key, pair);
  }
}
