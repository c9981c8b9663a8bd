import type { Steps } from '../../base/async/steps.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import {
  classesIn,
  classIn,
  type DirectionMatrix,
  type MatrixSubject,
  type PeerClass,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyOutcome,
  type PolicyTier,
  policyTiers,
  type SubjectClass,
} from '../matrix/matrix.ts';
import { type ClassEdit, type ClassMove, classEdits, classMoves, type EditedRows, type WrittenRelation } from './class-edits.ts';
import { ContentNames } from './content.ts';
import { ContentNumbers } from './content-numbers.ts';
import { DecisionRows } from './decision-rows.ts';
import { type DirectionKeys, type DirectionRows, type FlowsMatrix, unionOf } from './flows-matrix.ts';
import { IdentifiedAddresses } from './identified-addresses.ts';
import { InheritedRows } from './inherited-rows.ts';
import { type HeldIdentities, reservedPeers } from './installed-identities.ts';
import type { NumberPool } from './number-pool.ts';
import type { NumberRanges } from './number-ranges.ts';
import { classKindOf, classKinds, type NumberKind, numberKinds, recoveredNumbers } from './recovered-numbers.ts';
import { type DirectionTables, dictionaryFlow, directionTables, relationFlow } from './rows.ts';
import type { DirectionTransition } from './transition.ts';

/** Further work of a round. */
interface DirectionRoundOptions extends Partial<Pick<DirectionTransition, 'former' | 'coming' | 'passing'>> {
  /** Edits returned by `editsOf`. */
  readonly edits?: readonly ClassEdit[];
}

/** Desired flows of the owners that have changed; an empty list if the owner wants none any more. */
interface WantedFlows {
  readonly rows: ReadonlyMap<Owner, readonly Flow[]>;
  /** Rows of single addresses, which depend on `rows`. */
  readonly addresses: ReadonlyMap<Owner, NumberedRow | readonly Flow[]>;
  /** Rows of networks, to which the rows of addresses may be exceptions; longest prefixes first. */
  readonly networks: ReadonlyMap<Owner, NumberedRow | readonly Flow[]>;
  /** Rows in use by entry flows whose content changes: all of them at once. */
  readonly edited: ReadonlyMap<Owner, readonly Flow[]>;
}

/** Rows of one direction by owner. A row without a number is left out, which denies: policies only allow. */
export class DirectionFlows {
  readonly contents: ContentNumbers;
  readonly names: ContentNames;
  readonly left: InheritedRows;
  readonly #direction: PolicyDirection;
  readonly #isRecovered: boolean;
  readonly #tables: DirectionTables;
  /** Classes of each pod, in the order of the tiers. */
  readonly #subjects = new Map<string, readonly SubjectClass[]>();
  /** Contents of a transition that stay in use until the next round without a pod or an address. */
  #kept: { readonly former: readonly SubjectClass[]; readonly coming: readonly PeerIdentity[] } = { former: [], coming: [] };
  /** Previous classes of pods that were admitted to others. Rows of a running round may still be theirs. */
  readonly #admittedFrom: SubjectClass[] = [];
  readonly #classes = new Map<number, { readonly subject: SubjectClass; pods: number }>();
  readonly #addresses: IdentifiedAddresses;
  readonly #peers = new Map<number, { readonly peers: PeerClass; uses: number }>();
  readonly #relations = new Map<string, WrittenRelation>();
  readonly #relationUses = new Map<Owner, number>();
  readonly #decisions: DecisionRows;
  /** Keys of relations without a number. */
  readonly #starved = new Set<string>();
  #wanted = new Map<Owner, readonly Flow[]>();

  constructor(direction: PolicyDirection, families: readonly Family[], recovered: Iterable<RecoveredFlow>, rangeOf?: NumberRanges) {
    this.#direction = direction;
    this.#tables = directionTables[direction];
    this.names = new ContentNames(direction);
    const found = recoveredNumbers(this.#tables, recovered, this.names);
    this.#isRecovered = numberKinds.some((kind) => found[kind].byCookie.size > 0);
    this.contents = new ContentNumbers(this.names, found, rangeOf);
    this.left = new InheritedRows({ direction, tables: this.#tables, contents: this.contents }, recovered);
    this.#addresses = new IdentifiedAddresses({
      direction,
      names: this.names,
      families,
      enter: (identity) => this.#enterIdentity(identity),
    });
    this.#decisions = new DecisionRows({ names: this.names, numbers: this.numbers.decision, tables: this.#tables, families });
  }

  get held(): HeldIdentities {
    return this.#addresses.held;
  }

  get numbers(): Readonly<Record<NumberKind, NumberPool>> {
    return this.contents.pools;
  }

  /** Returns the classes that only get another content in the next round. @param pods local pods that were added, removed or changed */
  movesOf({ subjects }: Pick<FlowsMatrix, 'subjects'>, pods: Iterable<string>, { identities }: DirectionKeys): readonly ClassMove[] {
    if (identities.size > 0 || this.starved > 0) return [];
    const all = [...pods];
    return policyTiers.flatMap((tier) =>
      classMoves(this.#editedRows, all, (pod) => [this.#classIn(pod, tier), classIn(subjects.get(pod), this.#direction, tier)]),
    );
  }

  /** Reports whether the class of a pod in a tier is about to change. */
  isMoved({ subjects }: Pick<FlowsMatrix, 'subjects'>, pod: string, tier: PolicyTier): boolean {
    return this.#classIn(pod, tier) !== classIn(subjects.get(pod), this.#direction, tier);
  }

  #classIn(pod: string, tier: PolicyTier): SubjectClass | undefined {
    return this.#subjects.get(pod)?.find((each) => (each.tier ?? 'networkPolicy') === tier);
  }

  /** Returns the rows that these moves change. */
  *editsOf(matrix: FlowsMatrix, moves: readonly ClassMove[], { relations }: DirectionKeys): Steps<readonly ClassEdit[]> {
    return yield* classEdits(this.#editedRows, moves, relations, matrix[this.#direction]);
  }

  /**
   * Computes the rows of a round.
   *
   * @param pods local pods that were added, removed or changed
   * @returns desired flows of the owners that have changed
   */
  *round(matrix: FlowsMatrix, pods: ReadonlySet<string>, changed: DirectionKeys, options: DirectionRoundOptions = {}): Steps<WantedFlows> {
    const { edits = [], former = [], coming = [], passing } = options;
    const { identities, relations } = matrix[this.#direction];
    const keys = {
      identities: unionOf(changed.identities, this.#addresses.starved),
      relations: unionOf(changed.relations, this.#starved),
    };
    const classesOf = (pod: string) => classesIn(matrix.subjects.get(pod), this.#direction);
    if (this.#isRecovered) yield* this.#announce({ identities, relations }, new Set([...pods].flatMap(classesOf)), keys);
    const edited = this.#begin(edits);
    // Contents that stay in use keep their numbers, because everything new is acquired before anything is released.
    const decisions: Owner[] = [];
    const [peers, classes] = [[...this.#kept.coming], [...this.#admittedFrom.splice(0), ...this.#kept.former]];
    this.#kept = { former: [...former], coming };
    for (const subject of former) this.#use(subject);
    for (const identity of coming) this.#enterIdentity(identity);
    for (const key of keys.relations) {
      decisions.push(...this.#forgetRelation(key));
      yield;
    }
    for (const pod of pods) {
      classes.push(...this.#enter(pod, classesOf(pod)));
      yield;
    }
    for (const cidr of keys.identities) {
      peers.push(...this.#addresses.identify(cidr, identities.get(cidr)));
      yield;
    }
    for (const key of keys.relations) {
      this.#relate(key, relations.get(key), passing?.has(key));
      yield;
    }
    for (const decision of decisions) {
      this.numbers.decision.release(decision);
      yield;
    }
    for (const identity of peers) {
      this.#leavePeers(identity);
      yield;
    }
    for (const subject of classes) this.#leave(subject);
    yield* this.#dictionaries(edited);
    const wanted = { rows: this.#wanted, ...this.#addresses.takeWanted(), edited: this.#end(edits, edited) };
    this.#wanted = new Map();
    return wanted;
  }

  /** Starts the edits. @returns owners of the edited rows as they are written now, and of all edited decisions */
  #begin(edits: readonly ClassEdit[]): Set<Owner> {
    const edited = new Set<Owner>();
    for (const { from, to, successors, others, keys } of edits) {
      this.contents.classPool(to).inherit(this.names.class(to), this.names.class(from));
      for (const [name, former] of successors) {
        this.numbers.decision.inherit(name, former);
        edited.add(name).add(former);
      }
      for (const name of others) edited.add(name);
      for (const key of keys) this.#addOwner(edited, key);
    }
    return edited;
  }

  /** Finishes the edits. @throws SeineError `INVARIANT` if a number stands for two contents */
  #end(edits: readonly ClassEdit[], edited: Set<Owner>): ReadonlyMap<Owner, readonly Flow[]> {
    for (const { from, successors, keys } of edits) {
      const isClassInherited = this.contents.classPool(from).isKnown(this.names.class(from));
      const left = isClassInherited ? this.names.class(from) : [...successors.values()].find((name) => this.numbers.decision.isKnown(name));
      if (left !== undefined) throw new SeineError('INVARIANT', `${left} has left its number, and is used`);
      for (const key of keys) this.#addOwner(edited, key);
    }
    const rows = new Map<Owner, readonly Flow[]>();
    for (const owner of edited) {
      const flows = this.#wanted.get(owner);
      if (flows && this.#wanted.delete(owner)) rows.set(owner, flows);
    }
    return rows;
  }

  #addOwner(owners: Set<Owner>, key: string): void {
    const written = this.#relations.get(key);
    if (written) owners.add(written.owner);
  }

  get #editedRows(): EditedRows {
    return {
      names: this.names,
      numbers: this.numbers,
      podsOf: ({ id }) => this.#classes.get(id)?.pods ?? 0,
      relationOf: (key) => this.#relations.get(key),
      decisions: this.#decisions,
    };
  }

  /** Adds a pod to a class that other pods of the node have, between rounds or during one. */
  admit(pod: string, subject: MatrixSubject): void {
    this.#admittedFrom.push(...this.#enter(pod, classesIn(subject, this.#direction)));
  }

  /** Returns the numbers of a pod's classes by tier; undefined if one of them has no number. */
  classNumbersOf(pod: string): Readonly<Partial<Record<PolicyTier, number>>> | undefined {
    const numbers: Partial<Record<PolicyTier, number>> = {};
    for (const subject of this.#subjects.get(pod) ?? []) {
      const number = this.contents.numberOf('class', subject);
      if (number === undefined) return undefined;
      numbers[subject.tier ?? 'networkPolicy'] = number;
    }
    return numbers;
  }

  /** Owners of rows that decide about packets, each with the decision that its rows are made of. */
  *decided({ relations }: Pick<DirectionMatrix, 'relations'>): Generator<readonly [Owner, PolicyDecision]> {
    yield* this.#decisions.decided();
    for (const [key, { owner, decision: elsewhere }] of this.#relations) {
      const decision = elsewhere === undefined ? relations.get(key) : undefined;
      if (decision) yield [owner, decision];
    }
  }

  /** Reports whether the bridge cannot have the number of an identity, because a part of it has no number yet. */
  isFresh({ coarse, fine }: PeerIdentity): boolean {
    return this.contents.isFresh('coarse', coarse) || this.contents.isFresh('fine', fine);
  }

  /** Reports whether an address has a desired row of its own. */
  isIdentified(cidr: string): boolean {
    return this.#addresses.has(cidr);
  }

  /** Number of rows that differ from the matrix because numbers are short. */
  get starved(): number {
    return this.#addresses.starved.size + this.#starved.size;
  }

  *#announce({ identities, relations }: DirectionRows, subjects: ReadonlySet<SubjectClass>, keys: DirectionKeys): Steps {
    const names = Object.fromEntries(numberKinds.map((kind) => [kind, new Set<Owner>()])) as Record<NumberKind, Set<Owner>>;
    for (const subject of subjects) names[classKindOf(subject)].add(this.names.class(subject));
    for (const cidr of keys.identities) {
      const { coarse, fine } = identities.get(cidr) ?? {};
      if (coarse) names.coarse.add(this.names.coarse(coarse));
      if (fine) names.fine.add(this.names.fine(fine));
      yield;
    }
    for (const key of keys.relations) {
      const decision = relations.get(key);
      if (decision && decision.ranges.length > 0) names.decision.add(this.names.decision(decision));
      yield;
    }
    for (const kind of numberKinds) this.numbers[kind].announce(names[kind]);
  }

  /** Moves a pod to classes. @returns the previous classes, to be released */
  #enter(pod: string, classes: readonly SubjectClass[]): readonly SubjectClass[] {
    const left = this.#subjects.get(pod) ?? [];
    if (classes.length === 0) this.#subjects.delete(pod);
    else this.#subjects.set(pod, classes);
    for (const each of classes) this.#use(each);
    return left;
  }

  #use(subject: SubjectClass): void {
    const known = this.#classes.get(subject.id);
    if (known) known.pods++;
    else this.#classes.set(subject.id, { subject, pods: 1 });
    this.contents.acquire('class', subject);
  }

  #leave(subject: SubjectClass): void {
    this.contents.release('class', subject);
    const known = this.#classes.get(subject.id);
    if (known && --known.pods === 0) this.#classes.delete(subject.id);
  }

  #enterIdentity({ coarse, fine }: PeerIdentity) {
    return { coarse: this.#enterPeers('coarse', coarse), fine: this.#enterPeers('fine', fine) };
  }

  #enterPeers(kind: 'coarse' | 'fine', peers: PeerClass): number | undefined {
    const held = this.#peers.get(peers.id);
    if (held) held.uses++;
    else this.#peers.set(peers.id, { peers, uses: 1 });
    return this.contents.acquire(kind, peers);
  }

  #leavePeers({ coarse, fine }: PeerIdentity): void {
    for (const [kind, peers] of [['coarse', coarse] as const, ['fine', fine] as const]) {
      const held = this.#peers.get(peers.id);
      if (held && --held.uses === 0) this.#peers.delete(peers.id);
      this.contents.release(kind, peers);
    }
  }

  /** Forgets a relation. @returns the decision that it used, to be released */
  #forgetRelation(key: string): readonly Owner[] {
    const written = this.#relations.get(key);
    if (!written) return [];
    this.#relations.delete(key);
    const uses = (this.#relationUses.get(written.owner) ?? 1) - 1;
    if (uses > 0) this.#relationUses.set(written.owner, uses);
    else {
      this.#relationUses.delete(written.owner);
      this.#wanted.set(written.owner, []);
    }
    return written.decision === undefined ? [] : [written.decision];
  }

  #relate(key: string, decision: PolicyDecision | undefined, isPassing = false): void {
    this.#starved.delete(key);
    const { subject, peers } = (decision && this.#contentsOf(key, isPassing)) ?? {};
    if (!decision || !subject || !peers) return;
    const numbers = this.contents.relationNumbers(subject, peers);
    const decided = numbers && this.#decide(decision);
    if (!numbers || decided === undefined) {
      this.#starved.add(key);
      return;
    }
    const outcome = 'decision' in decided ? undefined : decision.otherwise;
    const owner = this.#ownerOf(subject, Object.values(numbers), isPassing ? 'passing' : outcome);
    const says = outcome ? { outcome: this.names.outcome(outcome) } : { decision: this.names.decision(decision) };
    this.#relations.set(key, { owner, ...says });
    this.#relationUses.set(owner, (this.#relationUses.get(owner) ?? 0) + 1);
    this.#wanted.set(owner, [relationFlow(this.#tables, numbers.subject, numbers, decided, subject.tier)]);
  }

  #ownerOf(subject: SubjectClass, numbers: readonly number[], of: PolicyOutcome | 'passing' | undefined): Owner {
    if (numbers.length === 1) return this.names.class(subject);
    return of === 'passing' ? this.names.passing(numbers, subject.tier) : this.names.relation(numbers, of, subject.tier);
  }

  /**
   * Returns the contents that a key names.
   *
   * @returns undefined if no pod or no address has a class that the key of a transition row names: keys of a previous agent's rows may name
   * such classes
   * @throws SeineError `INVARIANT` if that is so for any other key: a matrix has no such key
   */
  #contentsOf(key: string, isPassing: boolean): { readonly subject: SubjectClass; readonly peers: readonly PeerClass[] } | undefined {
    const [id = 0, ...peerIds] = key.split(' ').map(Number);
    const subject = this.#classes.get(id)?.subject;
    const peers = peerIds.flatMap((each) => this.#peers.get(each)?.peers ?? reservedPeers.get(each) ?? []);
    if (subject && peers.length === peerIds.length) return { subject, peers };
    if (isPassing) return undefined;
    throw new SeineError('INVARIANT', `no pod is in a class of relation ${key}`);
  }

  #decide(decision: PolicyDecision): PolicyOutcome | { readonly decision: number } | undefined {
    const left = this.contents.inheritedNumberOf(decision);
    if (left === undefined && decision.ranges.length === 0) return decision.otherwise;
    const number = left ?? this.#decisions.acquire(decision);
    return number === undefined ? undefined : { decision: number };
  }

  /** Writes the rows that name the content of each number. They are added and removed with the number. */
  *#dictionaries(edited: Set<Owner>): Steps {
    for (const kind of ['coarse', 'fine'] as const) {
      const { began, ended } = this.numbers[kind].takeChanges();
      for (const name of ended) {
        this.#wanted.set(name, []);
        yield;
      }
      for (const name of began) {
        this.#wanted.set(name, [dictionaryFlow(this.#tables, kind, this.numbers[kind].numberOf(name) ?? 0)]);
        yield;
      }
    }
    for (const kind of Object.values(classKinds)) this.numbers[kind].takeChanges();
    yield* this.#decisions.settle(this.#wanted, edited);
  }
}
