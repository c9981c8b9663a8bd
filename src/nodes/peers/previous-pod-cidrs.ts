/** Of one node, so many are remembered, and of so many nodes. */
const PER_NODE_MAX = 4;
const NODES_MAX = 1_000;

/**
 * Pod networks that nodes had before, as far as this agent has seen them: a node whose network changes still has pods in the old
 * one, and no object says so. Bounded; the longest known go first.
 */
export class PreviousPodCidrs {
  /** What each node had when it was last looked at, and each that has left since. */
  readonly #last = new Map<string, readonly string[]>();
  readonly #left = new Map<string, readonly string[]>();
  readonly #former = new Map<string, readonly string[]>();

  /** Notes what a node has now. @param podCidrs canonical text; undefined if there is no such node now */
  note(node: string, podCidrs: readonly string[] | undefined): void {
    const before = this.#last.get(node) ?? this.#left.get(node);
    if (podCidrs === undefined) {
      this.#last.delete(node);
      // One that comes back under another pod network may be the same machine with the same pods.
      if (before) bounded(this.#left, node, before);
      return;
    }
    if (podCidrs.length === 0) return;
    this.#left.delete(node);
    this.#last.set(node, podCidrs);
    const lost = (before ?? []).filter((cidr) => !podCidrs.includes(cidr));
    const known = this.of(node);
    if (lost.length === 0 && !known.some((cidr) => podCidrs.includes(cidr))) return;
    this.#keep(
      node,
      [...known, ...lost].filter((cidr) => !podCidrs.includes(cidr)),
    );
  }

  /** Another node has it now. */
  forget(node: string, cidr: string): void {
    this.#keep(
      node,
      this.of(node).filter((known) => known !== cidr),
    );
  }

  of(node: string): readonly string[] {
    return this.#former.get(node) ?? [];
  }

  #keep(node: string, cidrs: readonly string[]): void {
    if (cidrs.length > 0) bounded(this.#former, node, cidrs.slice(-PER_NODE_MAX));
    else this.#former.delete(node);
  }
}

function bounded<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= NODES_MAX) break;
    map.delete(oldest);
  }
}
