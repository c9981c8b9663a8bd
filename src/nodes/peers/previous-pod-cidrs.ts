/** Maximum number of networks remembered per node, and of nodes. */
const PER_NODE_MAX = 4;
const NODES_MAX = 1_000;

/**
 * Previous pod networks of nodes, as far as this agent has observed them: a node whose network changes still has pods in the old one, and
 * no object shows that. Bounded; the oldest are dropped first.
 */
export class PreviousPodCidrs {
  /** Networks of each node when it was last checked, and (`#left`) of nodes that have left since. */
  readonly #last = new Map<string, readonly string[]>();
  readonly #left = new Map<string, readonly string[]>();
  readonly #former = new Map<string, readonly string[]>();

  /** Records a node's current networks. @param podCidrs canonical text; undefined if there is no such node now */
  note(node: string, podCidrs: readonly string[] | undefined): void {
    const before = this.#last.get(node) ?? this.#left.get(node);
    if (podCidrs === undefined) {
      this.#last.delete(node);
      // A node that returns with another pod network may be the same host with the same pods.
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

  /** Drops a network that another node has now. */
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
