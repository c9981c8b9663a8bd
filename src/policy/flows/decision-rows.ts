import type { Steps } from '../../base/async/steps.ts';
import type { Family } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { DecidedRange, PolicyDecision } from '../matrix/matrix.ts';
import type { ContentNames } from './content.ts';
import type { NumberPool } from './number-pool.ts';
import { portPrefixes } from './port-prefixes.ts';
import { type DirectionTables, otherwiseFlow, rangeFlows } from './rows.ts';

interface DecisionRowsOptions {
  readonly names: ContentNames;
  readonly numbers: NumberPool;
  readonly tables: DirectionTables;
  readonly families: readonly Family[];
}

/** Decision that has a number. */
interface HeldDecision {
  readonly number: number;
  readonly decision: PolicyDecision;
  readonly ranges: ReadonlyMap<Owner, DecidedRange>;
}

/**
 * Rows of the decisions of one direction. Each range of ports is an owner, so ranges that two decisions with the same number share are not
 * written again.
 */
export class DecisionRows {
  readonly #options: DecisionRowsOptions;
  readonly #held = new Map<Owner, HeldDecision>();
  /** Decisions that were last requested, and may get a number next. */
  readonly #asked = new WeakMap<PolicyDecision, HeldDecision>();

  constructor(options: DecisionRowsOptions) {
    this.#options = options;
  }

  /** Counts one use more of a decision with ranges. @returns undefined if no number is free */
  acquire(decision: PolicyDecision): HeldDecision['number'] | undefined {
    const { names, numbers } = this.#options;
    const name = names.decision(decision);
    const number = numbers.acquire(name);
    if (number !== undefined && this.#held.get(name)?.number !== number) this.#held.set(name, this.#under(number, decision));
    return number;
  }

  /** Owners of rows, each with the decision that it is part of. */
  *decided(): Generator<readonly [Owner, PolicyDecision]> {
    for (const [name, held] of this.#held) {
      yield [name, held.decision];
      for (const owner of held.ranges.keys()) yield [owner, held.decision];
    }
  }

  /** Returns the number of flows of a decision. */
  sizeOf(decision: PolicyDecision): number {
    return decision.ranges.reduce((sum, range) => sum + this.#flowsOf(range), 1);
  }

  /**
   * Returns the number of flows that are added or removed if `decision` takes over the number of `from`, including the row that names the
   * number.
   */
  differing(from: Owner, decision: PolicyDecision): number {
    const former = this.#held.get(from);
    if (!former) return Number.POSITIVE_INFINITY;
    const next = this.#under(former.number, decision);
    let size = 1;
    for (const [owner, range] of former.ranges) if (!next.ranges.has(owner)) size += this.#flowsOf(range);
    for (const [owner, range] of next.ranges) if (!former.ranges.has(owner)) size += this.#flowsOf(range);
    return size;
  }

  /**
   * Adds and removes rows along with the numbers.
   *
   * @param wanted receives the rows that have changed
   * @param edited names of decisions that are edited; receives the owners of their rows
   */
  *settle(wanted: Map<Owner, readonly Flow[]>, edited: Set<Owner>): Steps {
    const { numbers, tables, families } = this.#options;
    const { began, ended } = numbers.takeChanges();
    const gone = new Set<Owner>();
    for (const name of ended) {
      wanted.set(name, []);
      for (const owner of this.#held.get(name)?.ranges.keys() ?? []) {
        wanted.set(owner, []);
        gone.add(owner);
        if (edited.has(name)) edited.add(owner);
      }
      this.#held.delete(name);
      yield;
    }
    for (const name of began) {
      const held = this.#held.get(name);
      if (!held) continue;
      const { tier = 'networkPolicy' } = held.decision;
      wanted.set(name, [otherwiseFlow(tables, held.number, held.decision.otherwise, tier)]);
      for (const [owner, range] of held.ranges) {
        if (gone.has(owner)) wanted.delete(owner);
        else wanted.set(owner, rangeFlows(tables, held.number, range, families, tier));
        if (edited.has(name)) edited.add(owner);
        yield;
      }
    }
  }

  #under(number: number, decision: PolicyDecision): HeldDecision {
    const known = this.#asked.get(decision);
    if (known?.number === number) return known;
    const ranges = new Map(decision.ranges.map((range) => [this.#options.names.range(number, range), range] as const));
    const under: HeldDecision = { number, decision, ranges };
    this.#asked.set(decision, under);
    return under;
  }

  #flowsOf(range: DecidedRange): number {
    return portPrefixes(range).length * this.#options.families.length;
  }
}
