import type { Plan } from './target.ts';

/** A part of a plan that is applied as one, with the owners it is for. */
export interface Portion<K, V> extends Plan<K, V> {
  readonly owners: readonly string[];
}

/**
 * Cuts a plan into portions of about `size` entries without separating what one owner asked for: groups and the flows that
 * use them, or a policy's isolation and its exceptions, become true together. Removals belong to nobody any more and
 * come last, so that nothing is missing in between.
 */
export function portions<K, V>(plan: Plan<K, V>, ownerOf: (key: K) => string, size: number): Portion<K, V>[] {
  const byOwner = Map.groupBy(plan.put.keys(), ownerOf);
  const result: Portion<K, V>[] = [];
  let put = new Map<K, V>();
  let owners: string[] = [];
  const close = (remove: ReadonlySet<K>): void => {
    if (put.size + remove.size > 0) result.push({ put, remove, owners });
    put = new Map();
    owners = [];
  };
  for (const [owner, keys] of byOwner) {
    if (put.size > 0 && put.size + keys.length > size) close(new Set());
    owners.push(owner);
    for (const key of keys) put.set(key, plan.put.get(key) as V);
  }
  if (put.size + plan.remove.size > size) close(new Set());
  const removals = [...plan.remove];
  do close(new Set(removals.splice(0, size)));
  while (removals.length > 0);
  return result;
}

/** Two halves of a portion, by owner; for finding the one that the target refuses. Removals go with the second. */
export function halves<K, V>(portion: Portion<K, V>, ownerOf: (key: K) => string): [Portion<K, V>, Portion<K, V>] {
  const middle = Math.ceil(portion.owners.length / 2);
  const first = new Set(portion.owners.slice(0, middle));
  const pick = (wantFirst: boolean): Map<K, V> => new Map([...portion.put].filter(([key]) => first.has(ownerOf(key)) === wantFirst));
  return [
    { put: pick(true), remove: new Set(), owners: portion.owners.slice(0, middle) },
    { put: pick(false), remove: portion.remove, owners: portion.owners.slice(middle) },
  ];
}

/** A portion that leaves these keys alone; the same one if it has none of them. */
export function without<K, V>(portion: Portion<K, V>, keys: ReadonlySet<K>): Portion<K, V> {
  const concerned = [...keys].filter((key) => portion.put.has(key) || portion.remove.has(key));
  if (concerned.length === 0) return portion;
  const [put, remove] = [new Map(portion.put), new Set(portion.remove)];
  for (const key of concerned) {
    put.delete(key);
    remove.delete(key);
  }
  return { ...portion, put, remove };
}
