import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { reg, registerFields } from '../../dataplane/pipeline/fields.ts';
import { priority } from '../../dataplane/pipeline/flow.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import {
  type PeerClass,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  type PolicyOutcome,
  relationKey,
  type SubjectClass,
} from '../matrix/matrix.ts';
import type { ContentNumbers } from './content-numbers.ts';
import { noPeer } from './installed-identities.ts';
import { numberRange } from './number-ranges.ts';
import { markOf, type NumberKind, numberIn, relatedNumbers } from './recovered-numbers.ts';
import type { DirectionTables, IdentityNumbers } from './rows.ts';

/** Row of relations with its verdict, or the number of the decision that has it. */
interface LeftRelation {
  readonly numbers: readonly number[];
  readonly cookie: bigint;
  readonly says: PolicyOutcome['verdict'] | number;
}

/** Rows of a previous agent as a matrix. */
export interface LeftMatrix {
  readonly identities: ReadonlyMap<string, PeerIdentity>;
  readonly relations: ReadonlyMap<string, PolicyDecision>;
  /** Classes by OpenFlow port of the local pod. */
  readonly classes: ReadonlyMap<number, SubjectClass>;
}

interface ContentsByKind {
  readonly class: SubjectClass;
  readonly coarse: PeerClass;
  readonly fine: PeerClass;
  readonly decision: PolicyDecision;
}

interface LeftRowsOptions {
  readonly direction: PolicyDirection;
  readonly tables: DirectionTables;
  readonly contents: ContentNumbers;
}

/** Rows of one direction that were on the bridge when the agent started: what the previous agent enforced, until the rows are swept. */
export class LeftRows {
  readonly #options: LeftRowsOptions;
  /** Identities by network. */
  readonly #identities = new Map<string, IdentityNumbers>();
  readonly #relations: LeftRelation[] = [];
  /** Class numbers by OpenFlow port. */
  readonly #classes = new Map<number, number>();
  /** Stand-ins for unknown contents, by their number. */
  readonly #unnamed: { readonly [K in NumberKind]: Map<number, ContentsByKind[K]> } = {
    class: new Map(),
    coarse: new Map(),
    fine: new Map(),
    decision: new Map(),
  };

  constructor(options: LeftRowsOptions, flows: Iterable<RecoveredFlow>) {
    this.#options = options;
    const { entry, identity, relations } = options.tables;
    for (const flow of flows) {
      if (flow.table === entry) this.#seeEntry(flow);
      else if (flow.table === identity) this.#seeAddress(flow);
      else if (flow.table === relations) this.#seeRelation(flow);
    }
  }

  /**
   * Returns the class number that the entry flows of a local pod load; undefined if they load none, or that of pods which are blocked
   * pending policy.
   */
  classNumberAt(ofPort: number): number | undefined {
    return this.#classes.get(ofPort);
  }

  /** Forgets the rows, because the bridge no longer has them. */
  clear(): void {
    for (const rows of [this.#identities, this.#classes, ...Object.values(this.#unnamed)]) rows.clear();
    this.#relations.length = 0;
  }

  get isEmpty(): boolean {
    return this.#classes.size === 0 && this.#identities.size === 0 && this.#relations.length === 0;
  }

  /**
   * Reads the rows with current knowledge: numbers are resolved to the contents that exist now. A number without a known content gets a
   * stand-in, of which only the number is known.
   *
   * @param matrices matrices whose contents may be on the bridge
   * @param nextId returns ids for stand-ins
   */
  *read(matrices: readonly PolicyMatrix[], nextId: () => number): Steps<LeftMatrix> {
    const known = yield* this.#known(matrices);
    const of = <K extends NumberKind>(kind: K, number: number, make: () => ContentsByKind[K]): ContentsByKind[K] =>
      known[kind].get(number) ?? this.#unnamedOf(kind, number, make);
    const subjectOf = (number: number): SubjectClass => of('class', number, () => ({ id: nextId(), text: left, isolatedBy: [] }));
    const peersOf = (kind: 'coarse' | 'fine', number: number): PeerClass =>
      number === 0 ? noPeer : of(kind, number, () => ({ id: nextId(), terms: [left] }));
    const identities = new Map<string, PeerIdentity>();
    for (const [network, { coarse, fine }] of this.#identities) {
      identities.set(network, { coarse: peersOf('coarse', coarse), fine: peersOf('fine', fine) });
      if (identities.size % tinyWork === 0) yield;
    }
    const relations = new Map<string, PolicyDecision>();
    const next = matrices.map((matrix) => matrix[this.#options.direction].relations);
    for (const { numbers, cookie, says } of this.#relations) {
      const [subject = 0, coarse, fine] = numbers;
      const peers = [...(coarse === undefined ? [] : [peersOf('coarse', coarse)]), ...(fine === undefined ? [] : [peersOf('fine', fine)])];
      const key = relationKey(subjectOf(subject), ...peers);
      const saidNow = next.flatMap((each) => each.get(key) ?? []).find((each) => this.#isSaid(each, numbers, cookie));
      relations.set(
        key,
        typeof says === 'number' ? of('decision', says, () => ({ ...leftVerdicts.deny })) : (saidNow ?? leftVerdicts[says]),
      );
      if (relations.size % tinyWork === 0) yield;
    }
    return { identities, relations, classes: new Map([...this.#classes].map(([ofPort, number]) => [ofPort, subjectOf(number)])) };
  }

  /** Reports whether a row with a verdict was made for the same rule. */
  #isSaid(decision: PolicyDecision, numbers: readonly number[], cookie: bigint): boolean {
    const { names } = this.#options.contents;
    return decision.ranges.length === 0 && (numbers.length === 1 || cookieOf(names.relation(numbers, decision.otherwise)) === cookie);
  }

  #unnamedOf<K extends NumberKind>(kind: K, number: number, make: () => ContentsByKind[K]): ContentsByKind[K] {
    const unnamed = this.#unnamed[kind];
    const known = unnamed.get(number);
    if (known) return known;
    const made = make();
    unnamed.set(number, made);
    this.#options.contents.leave(made, number);
    return made;
  }

  /** Returns contents by the numbers that the bridge has for them. If two contents claim the same number, neither is returned. */
  *#known(matrices: readonly PolicyMatrix[]): Steps<{ readonly [K in NumberKind]: ReadonlyMap<number, ContentsByKind[K]> }> {
    const { contents, direction } = this.#options;
    const { names, lent } = contents;
    const found = {
      class: new NumberedContents<SubjectClass>(),
      coarse: new NumberedContents<PeerClass>(),
      fine: new NumberedContents<PeerClass>(),
      decision: new NumberedContents<PolicyDecision>(),
    };
    let work = 0;
    for (const { subjects, [direction]: rows } of matrices) {
      for (const { [direction]: subject } of subjects.values())
        if (subject) found.class.see(subject, () => lent.class.heldNumberOf(names.class(subject)));
      for (const { coarse, fine } of rows.identities.values()) {
        found.coarse.see(coarse, () => lent.coarse.heldNumberOf(names.coarse(coarse)));
        found.fine.see(fine, () => lent.fine.heldNumberOf(names.fine(fine)));
        if (++work % tinyWork === 0) yield;
      }
      for (const decision of rows.relations.values()) {
        if (decision.ranges.length > 0) found.decision.see(decision, () => lent.decision.heldNumberOf(names.decision(decision)));
        if (++work % tinyWork === 0) yield;
      }
    }
    return { class: found.class.byNumber, coarse: found.coarse.byNumber, fine: found.fine.byNumber, decision: found.decision.byNumber };
  }

  /** Reads an entry flow for packets that a pod sends or receives itself; replies are looked up in other tables. */
  #seeEntry({ priority: level, inPort, regs, loads }: RecoveredFlow): void {
    const ofPort = inPort ?? numberIn(regs, reg.outPort);
    const number = numberIn(loads, markOf(this.#options.tables, 'class'));
    const isLent = number !== undefined && number >= numberRange('class').first;
    if (level === priority.normal && ofPort !== undefined && isLent) this.#classes.set(ofPort, number);
  }

  #seeAddress({ network, loads }: RecoveredFlow): void {
    const { tables } = this.#options;
    const [coarse, fine] = [numberIn(loads, markOf(tables, 'coarse')), numberIn(loads, markOf(tables, 'fine'))];
    if (network !== undefined && coarse !== undefined && fine !== undefined) this.#identities.set(network, { coarse, fine });
  }

  #seeRelation(flow: RecoveredFlow): void {
    const { tables } = this.#options;
    const numbers = relatedNumbers(tables, flow);
    const says = verdictIn(flow) ?? numberIn(flow.loads, markOf(tables, 'decision'));
    if (numbers.length > 0 && says !== undefined) this.#relations.push({ numbers, cookie: flow.cookie, says });
  }
}

const left = 'of an earlier agent';
const leftVerdicts: Readonly<Record<PolicyOutcome['verdict'], PolicyDecision>> = {
  allow: { ranges: [], otherwise: { verdict: 'allow', by: [left] } },
  deny: { ranges: [], otherwise: { verdict: 'deny', by: [left] } },
};

function verdictIn({ loads }: RecoveredFlow): PolicyOutcome['verdict'] | undefined {
  const number = numberIn(loads, reg.verdict);
  return (['allow', 'deny'] as const).find((verdict) => registerFields.verdict.values[verdict] === number);
}

class NumberedContents<C extends object> {
  readonly byNumber = new Map<number, C>();
  readonly #seen = new Set<C>();
  readonly #claimed = new Set<number>();

  see(content: C, numberOf: () => number | undefined): void {
    if (this.#seen.has(content)) return;
    this.#seen.add(content);
    const number = numberOf();
    if (number === undefined) return;
    if (this.#claimed.has(number)) this.byNumber.delete(number);
    else this.byNumber.set(number, content);
    this.#claimed.add(number);
  }
}
