import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { reg, registerFields } from '../../dataplane/pipeline/fields.ts';
import { priority } from '../../dataplane/pipeline/flow.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import {
  classesIn,
  type PeerClass,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  type PolicyOutcome,
  type PolicyTier,
  policyTiers,
  relationKey,
  type SubjectClass,
  unnumbered,
} from '../matrix/matrix.ts';
import type { ContentNumbers } from './content-numbers.ts';
import { noPeer } from './installed-identities.ts';
import { numberRange, unnumberedCoarse } from './number-ranges.ts';
import { classKindOf, classKinds, markOf, type NumberKind, numberIn, relatedNumbers, tierOfRelations } from './recovered-numbers.ts';
import type { DirectionTables, IdentityNumbers } from './rows.ts';

/** Row of relations with its verdict, or the number of the decision that has it. */
interface InheritedRelation {
  readonly tier: PolicyTier;
  readonly numbers: readonly number[];
  readonly cookie: bigint;
  readonly says: PolicyOutcome['verdict'] | number;
}

/** Rows of a previous agent as a matrix. */
export interface InheritedMatrix {
  readonly identities: ReadonlyMap<string, PeerIdentity>;
  readonly relations: ReadonlyMap<string, PolicyDecision>;
  /** Classes by OpenFlow port of the local pod. */
  readonly classes: ReadonlyMap<number, InheritedClasses>;
}

export type InheritedClasses = Readonly<Partial<Record<PolicyTier, SubjectClass>>>;
type ClassNumbers = Readonly<Partial<Record<PolicyTier, number>>>;

interface ContentsByKind {
  readonly class: SubjectClass;
  readonly adminClass: SubjectClass;
  readonly baselineClass: SubjectClass;
  readonly coarse: PeerClass;
  readonly fine: PeerClass;
  readonly decision: PolicyDecision;
}

interface InheritedRowsOptions {
  readonly direction: PolicyDirection;
  readonly tables: DirectionTables;
  readonly contents: ContentNumbers;
}

/** Rows of one direction that were on the bridge when the agent started: what the previous agent enforced, until the rows are swept. */
export class InheritedRows {
  readonly #options: InheritedRowsOptions;
  /** Identities by network. */
  readonly #identities = new Map<string, IdentityNumbers>();
  readonly #relations: InheritedRelation[] = [];
  /** Class numbers by OpenFlow port. */
  readonly #classes = new Map<number, ClassNumbers>();
  /** Stand-ins for unknown contents, by their number. */
  readonly #unnamed: { readonly [K in NumberKind]: Map<number, ContentsByKind[K]> } = {
    class: new Map(),
    adminClass: new Map(),
    baselineClass: new Map(),
    coarse: new Map(),
    fine: new Map(),
    decision: new Map(),
  };

  constructor(options: InheritedRowsOptions, flows: Iterable<RecoveredFlow>) {
    this.#options = options;
    const { entry, identity } = options.tables;
    for (const flow of flows) {
      if (flow.table === entry) this.#seeEntry(flow);
      else if (flow.table === identity) this.#seeAddress(flow);
      else this.#seeRelation(flow);
    }
  }

  /**
   * Returns the class number in a tier that the entry flows of a local pod load; undefined if they load none, or that of pods which are
   * blocked pending policy.
   */
  classNumberAt(ofPort: number, tier: PolicyTier): number | undefined {
    return this.#classes.get(ofPort)?.[tier];
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
  *read(matrices: readonly PolicyMatrix[], nextId: () => number): Steps<InheritedMatrix> {
    const known = yield* this.#known(matrices);
    const of = <K extends NumberKind>(kind: K, number: number, make: () => ContentsByKind[K]): ContentsByKind[K] =>
      known[kind].get(number) ?? this.#unnamedOf(kind, number, make);
    const subjectOf = (number: number, tier: PolicyTier): SubjectClass =>
      of(classKinds[tier], number, () => ({ id: nextId(), text: left, isolatedBy: [], ...tierPart(tier) }));
    const peersOf = (kind: 'coarse' | 'fine', number: number): PeerClass =>
      number === 0
        ? noPeer
        : kind === 'coarse' && number === unnumberedCoarse
          ? unnumbered
          : of(kind, number, () => ({ id: nextId(), terms: [left] }));
    const identities = new Map<string, PeerIdentity>();
    for (const [network, { coarse, fine }] of this.#identities) {
      identities.set(network, { coarse: peersOf('coarse', coarse), fine: peersOf('fine', fine) });
      if (identities.size % tinyWork === 0) yield;
    }
    const relations = new Map<string, PolicyDecision>();
    const next = matrices.map((matrix) => matrix[this.#options.direction].relations);
    for (const { tier, numbers, cookie, says } of this.#relations) {
      const [subject = 0, coarse, fine] = numbers;
      const peers = [...(coarse === undefined ? [] : [peersOf('coarse', coarse)]), ...(fine === undefined ? [] : [peersOf('fine', fine)])];
      const key = relationKey(subjectOf(subject, tier), ...peers);
      const verdictsNow = next
        .flatMap((each) => each.get(key) ?? [])
        .find((each) => this.#isDesired(each, { tier, numbers, cookie, says }));
      relations.set(
        key,
        typeof says === 'number'
          ? of('decision', says, () => ({ ...inheritedVerdicts.deny, ...tierPart(tier) }))
          : (verdictsNow ?? { ...inheritedVerdicts[says], ...tierPart(tier) }),
      );
      if (relations.size % tinyWork === 0) yield;
    }
    const classesOf = (numbers: ClassNumbers): InheritedClasses =>
      Object.fromEntries(
        policyTiers.flatMap((tier) => {
          const number = numbers[tier];
          return number === undefined ? [] : [[tier, subjectOf(number, tier)]];
        }),
      );
    return { identities, relations, classes: new Map([...this.#classes].map(([ofPort, numbers]) => [ofPort, classesOf(numbers)])) };
  }

  /** Reports whether a row with a verdict was made for the same rule. */
  #isDesired(decision: PolicyDecision, { tier, numbers, cookie }: InheritedRelation): boolean {
    const { names } = this.#options.contents;
    if (decision.ranges.length > 0) return false;
    return numbers.length === 1 || cookieOf(names.relation(numbers, decision.otherwise, tier)) === cookie;
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
    const { names, pools } = contents;
    const found = {
      class: new NumberedContents<SubjectClass>(),
      adminClass: new NumberedContents<SubjectClass>(),
      baselineClass: new NumberedContents<SubjectClass>(),
      coarse: new NumberedContents<PeerClass>(),
      fine: new NumberedContents<PeerClass>(),
      decision: new NumberedContents<PolicyDecision>(),
    };
    let work = 0;
    for (const { subjects, [direction]: rows } of matrices) {
      for (const pod of subjects.values())
        for (const subject of classesIn(pod, direction)) {
          const kind = classKindOf(subject);
          found[kind].see(subject, () => pools[kind].heldNumberOf(names.class(subject)));
        }
      for (const { coarse, fine } of rows.identities.values()) {
        found.coarse.see(coarse, () => pools.coarse.heldNumberOf(names.coarse(coarse)));
        found.fine.see(fine, () => pools.fine.heldNumberOf(names.fine(fine)));
        if (++work % tinyWork === 0) yield;
      }
      for (const decision of rows.relations.values()) {
        if (decision.ranges.length > 0) found.decision.see(decision, () => pools.decision.heldNumberOf(names.decision(decision)));
        if (++work % tinyWork === 0) yield;
      }
    }
    return {
      class: found.class.byNumber,
      adminClass: found.adminClass.byNumber,
      baselineClass: found.baselineClass.byNumber,
      coarse: found.coarse.byNumber,
      fine: found.fine.byNumber,
      decision: found.decision.byNumber,
    };
  }

  /** Reads an entry flow for packets that a pod sends or receives itself; replies are looked up in other tables. */
  #seeEntry({ priority: level, inPort, regs, loads }: RecoveredFlow): void {
    const ofPort = inPort ?? numberIn(regs, reg.outPort);
    const numbers = policyTiers.flatMap((tier) => {
      const number = numberIn(loads, markOf(this.#options.tables, classKinds[tier]));
      return number !== undefined && isAllocated(tier, number) ? [[tier, number] as const] : [];
    });
    if (level === priority.normal && ofPort !== undefined && numbers.length > 0) this.#classes.set(ofPort, Object.fromEntries(numbers));
  }

  #seeAddress({ network, loads }: RecoveredFlow): void {
    const { tables } = this.#options;
    const [coarse, fine] = [numberIn(loads, markOf(tables, 'coarse')), numberIn(loads, markOf(tables, 'fine'))];
    if (network !== undefined && coarse !== undefined && fine !== undefined) this.#identities.set(network, { coarse, fine });
  }

  #seeRelation(flow: RecoveredFlow): void {
    const { tables } = this.#options;
    const tier = tierOfRelations(tables, flow.table);
    if (!tier) return;
    const numbers = relatedNumbers(tables, flow, tier);
    const says = verdictIn(flow) ?? numberIn(flow.loads, markOf(tables, 'decision')) ?? (tier === 'admin' ? 'next' : undefined);
    const [subject] = numbers;
    if (subject !== undefined && isAllocated(tier, subject) && says !== undefined)
      this.#relations.push({ tier, numbers, cookie: flow.cookie, says });
  }
}

const left = 'of an earlier agent';
const inheritedVerdicts: Readonly<Record<PolicyOutcome['verdict'], PolicyDecision>> = {
  allow: { ranges: [], otherwise: { verdict: 'allow', by: [left] } },
  deny: { ranges: [], otherwise: { verdict: 'deny', by: [left] } },
  next: { ranges: [], otherwise: { verdict: 'next', by: [] } },
};

function tierPart(tier: PolicyTier): Pick<SubjectClass, 'tier'> {
  return tier === 'networkPolicy' ? {} : { tier };
}

/** Reports whether a class number stands for a content, not for pods without a class or blocked pending policy. */
function isAllocated(tier: PolicyTier, number: number): boolean {
  return number >= numberRange(classKinds[tier]).first;
}

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
