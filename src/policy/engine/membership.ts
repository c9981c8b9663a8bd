import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { type PeerSet, PeerSets, type TermHolding } from './identities/peer-set.ts';
import { addTo, type Kind, type KindChanges, type NamespaceLabels, type PodKinds, removeFrom } from './kinds.ts';
import { certainLabel, labelText, matchesLabels, type PodLabels } from './selector.ts';
import { isWide, type PodsTerm, type Term } from './term.ts';

/** Term in use in one direction. */
interface UsedTerm {
  readonly term: Term;
  uses: number;
  /** Holdings by port number: one for each number that the named port has, or a single one under 0 if the term names no port. */
  readonly holdings: Map<number, TermHolding>;
  readonly kinds: Set<Kind>;
  readonly namespaces: Set<string>;
}

/** Kinds and namespaces whose sets a round has changed. */
export interface MembershipChange {
  readonly kinds: ReadonlySet<Kind>;
  readonly namespaces: ReadonlySet<string>;
  /** True if blocks or terms of nodes have changed, or the use of "any pod" or "unknown pod". */
  readonly blocks: boolean;
}

/** Terms that match each kind of pod and each namespace, in one direction. Each combination is evaluated once. */
export class Membership {
  readonly sets = new PeerSets();
  readonly #kinds: PodKinds;
  readonly #namespaces: NamespaceLabels;
  readonly #terms = new Map<string, UsedTerm>();
  /** Terms that select by labels or ports of pods, indexed by labels of pods. */
  readonly #fineTerms = new TermIndex();
  /** Terms that select by namespace only, indexed by labels of namespaces. */
  readonly #wideTerms = new TermIndex();
  readonly #fine = new Map<Kind, PeerSet>();
  readonly #wideSets = new Map<string, PeerSet>();
  /** Namespaces with pods whose labels were not known in the last round. */
  readonly #unknown = new Set<string>();
  readonly #fresh = new Set<UsedTerm>();
  readonly #gone = new Set<UsedTerm>();
  #lastId = 0;

  constructor(kinds: PodKinds, namespaces: NamespaceLabels) {
    this.#kinds = kinds;
    this.#namespaces = namespaces;
  }

  acquire(term: Term): void {
    const known = this.#terms.get(term.text);
    if (known) {
      known.uses++;
      this.#gone.delete(known);
      return;
    }
    const used: UsedTerm = { term, uses: 1, holdings: new Map(), kinds: new Set(), namespaces: new Set() };
    this.#terms.set(term.text, used);
    this.#fresh.add(used);
  }

  release(term: Term): void {
    const used = this.#terms.get(term.text);
    if (!used || --used.uses > 0) return;
    this.#gone.add(used);
  }

  /** Terms that are networks or addresses, with the holding of an address in them. */
  *blocks(): Iterable<{ readonly term: Term; readonly holding: TermHolding }> {
    for (const used of this.#terms.values()) if (used.term.is !== 'pods') yield { term: used.term, holding: this.#holdingOf(used) };
  }

  /** Set of the term "any pod" if it is in use, else the empty set. */
  get anyPod(): PeerSet {
    const used = this.#terms.get('any pod');
    return used ? this.sets.of([this.#holdingOf(used)]) : this.sets.empty;
  }

  /** Set of the term "unknown pod" if it is in use, else the empty set. */
  get unknownPod(): PeerSet {
    const used = this.#terms.get('unknown pod');
    return used ? this.sets.of([this.#holdingOf(used)]) : this.sets.empty;
  }

  /** Reports whether the labels of a namespace are known. */
  isKnown(namespace: string): boolean {
    return this.#namespaces.get(namespace) !== undefined;
  }

  fineOf(kind: Kind): PeerSet {
    return this.#fine.get(kind) ?? this.sets.empty;
  }

  wideOf(namespace: string): PeerSet {
    return this.#wideSets.get(namespace) ?? this.sets.empty;
  }

  /** Returns the number of pods that a term matches; undefined for a block, and for a term that no rule of a local pod has. */
  podsOf({ text }: Term): number | undefined {
    const used = this.#terms.get(text);
    if (!used || (used.term.is !== 'pods' && used.term.is !== 'any pod')) return undefined;
    let pods = 0;
    for (const kind of this.#kindsOf(used)) pods += kind.pods.size;
    return pods;
  }

  *#kindsOf({ term, kinds, namespaces }: UsedTerm): Iterable<Kind> {
    if (term.is === 'any pod') yield* this.#kinds.all();
    else if (isWide(term)) for (const name of namespaces) yield* this.#kinds.ofNamespace(name);
    else yield* kinds;
  }

  *setsInUse(): Iterable<PeerSet> {
    yield* this.#fine.values();
    yield* this.#wideSets.values();
  }

  /** Applies the changes of kinds and namespaces. @param relabelled namespaces whose labels have changed */
  *settle({ added, removed }: KindChanges, relabelled: ReadonlySet<string>): Steps<MembershipChange> {
    const dirty = { kinds: new Set<Kind>(), namespaces: new Set<string>() };
    for (const kind of removed) yield* this.#forget(kind);
    let work = 0;
    for (const kind of added) {
      dirty.kinds.add(kind);
      if (!this.#wideSets.has(kind.namespace)) dirty.namespaces.add(kind.namespace);
      if (++work % tinyWork === 0) yield;
    }
    for (const name of relabelled) {
      dirty.namespaces.add(name);
      yield* addAll(dirty.kinds, this.#kinds.ofNamespace(name));
    }
    const areDeleted = yield* this.#dropDeleted(dirty);
    const areNew = yield* this.#takeFresh(dirty);
    return {
      kinds: yield* this.#changedKinds(dirty.kinds),
      namespaces: yield* this.#changedNamespaces(dirty.namespaces),
      blocks: areDeleted || areNew,
    };
  }

  /** Removes unused terms. @returns whether there are blocks among them */
  *#dropDeleted(dirty: DirtyPeers): Steps<boolean> {
    let blocks = false;
    for (const used of this.#gone) {
      blocks ||= used.term.is !== 'pods';
      yield* addAll(dirty.kinds, used.kinds);
      yield* addAll(dirty.namespaces, used.namespaces);
      this.#terms.delete(used.term.text);
      this.#indexOf(used)?.remove(used);
      yield;
    }
    this.#gone.clear();
    if (blocks) this.sets.sweepSoon();
    return blocks;
  }

  /** Adds new terms. @returns whether there are blocks among them */
  *#takeFresh(dirty: DirtyPeers): Steps<boolean> {
    let blocks = false;
    const looked = new Set<string>();
    for (const used of this.#fresh) {
      yield;
      // The term may have been removed since; then it needs no evaluation.
      if (!this.#terms.has(used.term.text)) continue;
      if (used.term.is !== 'pods') {
        blocks = true;
        continue;
      }
      this.#indexOf(used)?.add(used);
      const place = `${isWide(used.term)} ${placeOf(used.term)}`;
      if (looked.has(place)) continue; // the same kinds and namespaces are already marked
      looked.add(place);
      yield* addAll(dirty.kinds, this.#candidateKinds(used.term));
      yield* addAll(dirty.namespaces, this.#candidateNamespaces(used.term));
    }
    this.#fresh.clear();
    return blocks;
  }

  *#changedKinds(dirty: ReadonlySet<Kind>): Steps<ReadonlySet<Kind>> {
    const changed = new Set<Kind>();
    for (const kind of dirty) {
      yield;
      if (kind.pods.size === 0) continue;
      const holdings: TermHolding[] = [];
      for (const used of this.#fineTerms.candidates(kind.namespace, kind.labels)) {
        if (this.#holds(used.term, kind)) {
          used.kinds.add(kind);
          holdings.push(this.#holdingOf(used, kind));
        } else used.kinds.delete(kind);
      }
      const set = this.sets.of(holdings);
      if (set === this.fineOf(kind)) continue;
      if (set === this.sets.empty) this.#fine.delete(kind);
      else this.#fine.set(kind, set);
      changed.add(kind);
    }
    return changed;
  }

  *#changedNamespaces(dirty: ReadonlySet<string>): Steps<ReadonlySet<string>> {
    const changed = new Set<string>();
    for (const name of dirty) {
      yield;
      if (this.#kinds.ofNamespace(name).size === 0) {
        yield* this.#forgetNamespace(name);
        continue;
      }
      const labels = this.#namespaces.get(name);
      const holdings: TermHolding[] = [];
      for (const used of this.#wideTerms.candidates(name, labels ?? {})) {
        if (used.term.is === 'pods' && matchesNamespace(used.term, name, labels)) {
          used.namespaces.add(name);
          holdings.push(this.#holdingOf(used));
        } else used.namespaces.delete(name);
      }
      const set = this.sets.of(holdings);
      const isOther = set !== this.wideOf(name) || this.#unknown.has(name) !== (labels === undefined);
      if (labels === undefined) this.#unknown.add(name);
      else this.#unknown.delete(name);
      this.#wideSets.set(name, set);
      if (isOther) changed.add(name);
    }
    return changed;
  }

  #holds(term: Term, { namespace, labels, ports }: Kind): boolean {
    if (term.is !== 'pods' || !matchesLabels(term.pods, labels)) return false;
    if (term.portName !== undefined && !Object.hasOwn(ports, term.portName)) return false;
    return matchesNamespace(term, namespace, this.#namespaces.get(namespace));
  }

  #holdingOf({ term, holdings }: UsedTerm, kind?: Kind): TermHolding {
    const port = (kind && term.is === 'pods' && term.portName !== undefined ? kind.ports[term.portName] : undefined) ?? 0;
    const known = holdings.get(port);
    if (known) return known;
    const isNumbered = term.is === 'pods' && term.portName !== undefined;
    const holding: TermHolding = {
      id: ++this.#lastId,
      text: isNumbered ? `${term.text}=${port}` : term.text,
      term,
      ...(isNumbered ? { port } : {}),
    };
    holdings.set(port, holding);
    return holding;
  }

  #candidateKinds(term: Term): Iterable<Kind> {
    if (term.is !== 'pods' || isWide(term)) return [];
    const label = certainLabel(term.pods);
    const labelled = label === undefined ? undefined : this.#kinds.withLabel(label);
    if (typeof term.namespaces !== 'string') return labelled ?? this.#kinds.all();
    const own = this.#kinds.ofNamespace(term.namespaces);
    return labelled && labelled.size < own.size ? labelled : own;
  }

  #candidateNamespaces(term: Term): Iterable<string> {
    if (term.is !== 'pods' || !isWide(term)) return [];
    if (typeof term.namespaces === 'string') return [term.namespaces];
    const label = certainLabel(term.namespaces);
    return label === undefined ? this.#kinds.namespaces() : this.#namespaces.withLabel(label);
  }

  #indexOf({ term }: UsedTerm): TermIndex | undefined {
    if (term.is !== 'pods') return undefined;
    return isWide(term) ? this.#wideTerms : this.#fineTerms;
  }

  *#forget(kind: Kind): Steps {
    for (const used of this.#fineTerms.candidates(kind.namespace, kind.labels)) {
      used.kinds.delete(kind);
      yield;
    }
    this.#fine.delete(kind);
    if (this.#kinds.ofNamespace(kind.namespace).size === 0) yield* this.#forgetNamespace(kind.namespace);
  }

  *#forgetNamespace(name: string): Steps {
    this.#unknown.delete(name);
    if (!this.#wideSets.delete(name)) return;
    for (const used of this.#wideTerms.all()) {
      used.namespaces.delete(name);
      yield;
    }
  }
}

/** Kinds and namespaces to evaluate again. */
interface DirtyPeers {
  readonly kinds: Set<Kind>;
  readonly namespaces: Set<string>;
}

/**
 * Index of terms by namespace name and by a label that everything they match must have, where there is one. A policy may select as many
 * pods of its namespace by label as there are; each pod must be compared with its own terms only.
 */
class TermIndex {
  readonly #places = new Map<string, Set<UsedTerm>>();

  add(used: UsedTerm): void {
    addTo(this.#places, placeOf(used.term), used);
  }

  remove(used: UsedTerm): void {
    removeFrom(this.#places, placeOf(used.term), used);
  }

  *candidates(namespace: string, labels: PodLabels): Iterable<UsedTerm> {
    const certain = [undefined, ...Object.entries(labels).map(([key, value]) => labelText(key, value))];
    for (const name of [undefined, namespace]) for (const label of certain) yield* this.#places.get(placeText(name, label)) ?? [];
  }

  *all(): Iterable<UsedTerm> {
    for (const terms of this.#places.values()) yield* terms;
  }
}

function placeOf(term: Term): string {
  if (term.is !== 'pods') return placeText();
  if (typeof term.namespaces === 'string') return placeText(term.namespaces, certainLabel(term.pods));
  return placeText(undefined, certainLabel(isWide(term) ? term.namespaces : term.pods));
}

/** Key of a place. Names of namespaces contain no space. */
function placeText(namespace = '', label = ''): string {
  return `${namespace} ${label}`;
}

/** Reports whether a term matches a namespace. For an unknown namespace no label is known, neither as present nor as absent. */
function matchesNamespace({ namespaces }: PodsTerm, name: string, labels: PodLabels | undefined): boolean {
  if (typeof namespaces === 'string') return namespaces === name;
  return labels === undefined ? namespaces.length === 0 : matchesLabels(namespaces, labels);
}

function* addAll<T>(to: Set<T>, from: Iterable<T>): Steps {
  let work = 0;
  for (const each of from) {
    to.add(each);
    if (++work % tinyWork === 0) yield;
  }
}
