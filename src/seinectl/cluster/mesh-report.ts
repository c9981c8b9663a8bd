/** Problem of one node. */
interface ReportedProblem {
  readonly node: string;
  readonly kind: string;
  readonly about: string;
}

/** Number of nodes that observe each node, by default. */
const OBSERVERS = 16;

/** Node that at least half of its observers do not reach as usual. */
interface LostNode {
  readonly name: string;
  readonly observers: number;
  readonly of: number;
}

/**
 * Finds nodes that half of their observers report: the fault is theirs, and one line replaces all of these reports; also those of the node
 * itself, which reaches no other node.
 *
 * @param nodes number of nodes in the cluster
 */
export function lostNodes(problems: readonly ReportedProblem[], nodes: number): readonly LostNode[] {
  const of = Math.min(OBSERVERS, nodes - 1);
  const reports = Map.groupBy(
    problems.filter(({ kind, about }) => kind === 'mesh.peer' && about !== 'more'),
    ({ about }) => about,
  );
  return [...reports].flatMap(([name, from]) => {
    const observers = new Set(from.map(({ node }) => node)).size;
    return of > 1 && observers * 2 >= of ? [{ name, observers, of }] : [];
  });
}

/** Reports whether one line about lost nodes replaces this problem. */
export function isReplaced({ node, kind, about }: ReportedProblem, lost: readonly LostNode[]): boolean {
  return kind === 'mesh.peer' && lost.some(({ name }) => name === about || name === node);
}
