import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { type PeerClass, type SubjectClass, unnumbered } from '../matrix/matrix.ts';
import type { ContentNames } from './content.ts';
import { noPeer } from './installed-identities.ts';
import { NumberPool } from './number-pool.ts';
import { type NumberRanges, numberRange, unnumberedCoarse } from './number-ranges.ts';
import { classKindOf, type NumberKind, numberKinds, type RecoveredNumbersByKind } from './recovered-numbers.ts';

/** Contents by which rows are identified: classes of local pods, and the two parts of an identity. */
type NumberedContent = { readonly class: SubjectClass; readonly coarse: PeerClass; readonly fine: PeerClass };

interface RelationNumbers {
  readonly subject: number;
  readonly coarse?: number;
  readonly fine?: number;
}

/**
 * Numbers of the contents of one direction: allocated by this agent, or used on the bridge by a previous agent for contents that this agent
 * cannot name.
 */
export class ContentNumbers {
  readonly pools: Readonly<Record<NumberKind, NumberPool>>;
  readonly names: ContentNames;
  /** Numbers that stay in use on the bridge until it is swept. */
  readonly #unnamed = new WeakMap<object, number>();

  constructor(names: ContentNames, recovered: RecoveredNumbersByKind, rangeOf: NumberRanges = numberRange) {
    this.names = names;
    const pools = numberKinds.map((kind) => [kind, new NumberPool(rangeOf(kind), recovered[kind])] as const);
    this.pools = Object.fromEntries(pools) as Record<NumberKind, NumberPool>;
  }

  /** Records a number of a previous agent. @param content stand-in for the unknown content of its rows */
  leave(content: object, number: number): void {
    this.#unnamed.set(content, number);
  }

  /** Returns the number of such a stand-in; undefined for any other content. */
  inheritedNumberOf(content: object): number | undefined {
    return this.#unnamed.get(content);
  }

  /** Counts one use more. @returns undefined if no number is free */
  acquire<K extends keyof NumberedContent>(kind: K, content: NumberedContent[K]): number | undefined {
    return this.#fixed(kind, content) ?? this.#poolOf(kind, content).acquire(this.#nameOf(kind, content));
  }

  /** Counts one use less. */
  release<K extends keyof NumberedContent>(kind: K, content: NumberedContent[K]): void {
    if (this.#fixed(kind, content) === undefined) this.#poolOf(kind, content).release(this.#nameOf(kind, content));
  }

  numberOf<K extends keyof NumberedContent>(kind: K, content: NumberedContent[K]): number | undefined {
    return this.#fixed(kind, content) ?? this.#poolOf(kind, content).numberOf(this.#nameOf(kind, content));
  }

  /** Reports whether the bridge cannot have a number for this content. */
  isFresh<K extends keyof NumberedContent>(kind: K, content: NumberedContent[K]): boolean {
    return this.#fixed(kind, content) === undefined && !this.#poolOf(kind, content).isKnown(this.#nameOf(kind, content));
  }

  /** Returns the numbers that a row of relations matches; undefined while one of them is missing. */
  relationNumbers(subject: SubjectClass, [coarse, fine]: readonly PeerClass[]): RelationNumbers | undefined {
    const numbers = {
      subject: this.numberOf('class', subject),
      ...(coarse && { coarse: this.numberOf('coarse', coarse) }),
      ...(fine && { fine: this.numberOf('fine', fine) }),
    };
    return Object.values(numbers).includes(undefined) ? undefined : (numbers as RelationNumbers);
  }

  #fixed(kind: keyof NumberedContent, content: SubjectClass | PeerClass): number | undefined {
    if (kind !== 'class' && content.id === noPeer.id) return 0;
    return content.id === unnumbered.id ? unnumberedCoarse : this.#unnamed.get(content);
  }

  #poolOf(kind: keyof NumberedContent, content: SubjectClass | PeerClass): NumberPool {
    return 'isolatedBy' in content ? this.classPool(content) : this.pools[kind];
  }

  /** Numbers of the classes of one tier. */
  classPool(of: Pick<SubjectClass, 'tier'>): NumberPool {
    return this.pools[classKindOf(of)];
  }

  #nameOf<K extends keyof NumberedContent>(kind: K, content: NumberedContent[K]): Owner {
    const nameOf: { readonly [P in keyof NumberedContent]: (content: NumberedContent[P]) => Owner } = this.names;
    return nameOf[kind](content);
  }
}
