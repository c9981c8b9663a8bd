/**
 * Returns the peers that a node observes all the time: those at distances 1, 2, 4 … in the order of names, then at the smallest distances that are
 * left. Distances are the same on every node, so each node has as many observers as it observes.
 *
 * @param names all nodes, sorted
 */
export function fixedPeers(names: readonly string[], own: string, count: number): readonly string[] {
  const at = names.indexOf(own);
  if (at < 0) return [];
  return distances(names.length, count).flatMap((distance) => names[(at + distance) % names.length] ?? []);
}

function distances(nodes: number, count: number): readonly number[] {
  const most = Math.min(count, nodes - 1);
  const found = new Set<number>();
  for (let distance = 1; distance < nodes && found.size < most; distance *= 2) found.add(distance);
  for (let distance = 1; found.size < most; distance++) found.add(distance);
  return [...found];
}
