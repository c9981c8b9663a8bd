import type { Steps } from '../async/steps.ts';
import type { Family } from '../net/ip.ts';
import type { Owner } from '../pipeline/cookie.ts';
import type { Flow } from '../pipeline/flow.ts';
import type { DecidedRange, PolicyDecision } from '../policy-matrix/matrix.ts';
import type { ContentNames } from './content.ts';
import type { LentNumbers } from './lent-numbers.ts';
import { portPrefixes } from './port-prefixes.ts';
import { type DirectionTables, otherwiseFlow, rangeFlows } from './rows.ts';

interface DecisionRowsOptions {
  readonly names: ContentNames;
  readonly numbers: LentNumbers;
  readonly tables: DirectionTables;
  readonly families: readonly Family[];
}

interface HeldDecision {
  readonly number: number;
  readonly decision: PolicyDecision;
}

/** Rows of the decisions of one direction. Each range of ports is an owner: what two decisions of one number have alike is not written again. */
export class DecisionRows {
  readonly #options: DecisionRowsOptions;
  readonly #held = new Map<Owner, HeldDecision>();

  constructor(options: DecisionRowsOptions) {
    this.#options = options;
  }

  /** One use more of a decision with ranges. @returns undefined if there is no number for it */
  acquire(decision: PolicyDecision): HeldDecision['number'] | undefined {
    const { names, numbers } = this.#options;
    const name = names.decision(decision);
    const number = numbers.acquire(name);
    if (number !== undefined) this.#held.set(name, { number, decision });
    return number;
  }

  get(name: Owner): PolicyDecision | undefined {
    return this.#held.get(name)?.decision;
  }

  /** Owners of rows, each with the decision that it is a part of. */
  *decided(): Generator<readonly [Owner, PolicyDecision]> {
    for (const [name, held] of this.#held) {
      yield [name, held.decision];
      for (const [owner] of this.#rangesOf(held)) yield [owner, held.decision];
    }
  }

  /** All owners of a decision that has a number. */
  *ownersOf(name: Owner): Generator<Owner> {
    yield name;
    const held = this.#held.get(name);
    if (held) for (const [owner] of this.#rangesOf(held)) yield owner;
  }

  /** Owners of the rows that a decision has under a number, but for the one that says what the number stands for; each with how many flows it has. */
  sizesOf(number: number, decision: PolicyDecision): ReadonlyMap<Owner, number> {
    const { families } = this.#options;
    const sizes = new Map<Owner, number>();
    for (const [owner, range] of this.#rangesOf({ number, decision })) sizes.set(owner, portPrefixes(range).length * families.length);
    return sizes;
  }

  /** Rows come and go with the numbers. @param wanted gets those that are not as they were */
  *settle(wanted: Map<Owner, readonly Flow[]>): Steps {
    const { numbers, tables, families } = this.#options;
    const { began, ended } = numbers.takeChanges();
    const gone = new Set<Owner>();
    for (const name of ended) {
      for (const owner of this.ownersOf(name)) {
        wanted.set(owner, []);
        gone.add(owner);
        yield;
      }
      this.#held.delete(name);
    }
    for (const name of began) {
      const held = this.#held.get(name);
      if (!held) continue;
      wanted.set(name, [otherwiseFlow(tables, held.number, held.decision.otherwise.verdict)]);
      for (const [owner, range] of this.#rangesOf(held)) {
        if (gone.has(owner)) wanted.delete(owner);
        else wanted.set(owner, rangeFlows(tables, held.number, range, families));
        yield;
      }
    }
  }

  *#rangesOf({ number, decision }: HeldDecision): Generator<readonly [Owner, DecidedRange]> {
    for (const range of decision.ranges) yield [this.#options.names.range(number, range), range];
  }
}
