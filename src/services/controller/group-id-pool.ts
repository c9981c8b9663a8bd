import { fnv1aOf } from '../../dataplane/pipeline/fnv-1a.ts';

/** Group numbers above this are OpenFlow's own (OpenFlow 1.5.1 `OFPG_MAX` is 0xffffff00). */
const RANGE = 0xffff_ff00;

/**
 * Lends group numbers. Which one depends on the borrower's name, so that an agent that starts again asks for the same groups and
 * the switch need not be told anything; only where two names fall on one number does the order matter.
 */
export class GroupIdPool {
  readonly #lent = new Set<number>();

  lend(borrower: string): number {
    let candidate = 1 + (fnv1aOf(borrower) % (RANGE - 1));
    while (this.#lent.has(candidate)) candidate = candidate === RANGE - 1 ? 1 : candidate + 1;
    this.#lent.add(candidate);
    return candidate;
  }

  /** To be called once the switch is known to have removed the group. */
  giveBack(id: number): void {
    this.#lent.delete(id);
  }
}
