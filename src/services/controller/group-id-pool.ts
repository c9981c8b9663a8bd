import { fnv1aOf } from '../../dataplane/pipeline/fnv-1a.ts';

/** Group numbers above this are OpenFlow's own (OpenFlow 1.5.1 `OFPG_MAX` is 0xffffff00). */
const RANGE = 0xffff_ff00;

/**
 * Allocates group numbers. The number depends on the group's name, so that a restarted agent requests the same groups and OVS needs no
 * change; the order matters only where two names hash to one number.
 */
export class GroupIdPool {
  readonly #allocated = new Set<number>();

  lend(borrower: string): number {
    let candidate = 1 + (fnv1aOf(borrower) % (RANGE - 1));
    while (this.#allocated.has(candidate)) candidate = candidate === RANGE - 1 ? 1 : candidate + 1;
    this.#allocated.add(candidate);
    return candidate;
  }

  /** Releases a number. Call this once OVS is known to have removed the group. */
  release(id: number): void {
    this.#allocated.delete(id);
  }
}
