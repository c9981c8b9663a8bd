import type { Plan } from './target.ts';

/** A part of a plan that is applied as one, with the owners it is for. */
export interface PlanBatch<K, V> extends Plan<K, V> {
  readonly owners: readonly string[];
}

/**
 * Cuts a plan into batches of about `size` entries without separating the entries of one owner: groups and the flows that
 * use them, or a policy's isolation and its exceptions, become true together. Removals no longer have an owner and
 * come last, so that nothing is missing in between.
 */
export function planBatches<K, V>(plan: Plan<K, V>, ownerOf: (key: K) => string, size: number): PlanBatch<K, V>[] {
  const byOwner = Map.groupBy(plan.put.keys(), ownerOf);
  const result: PlanBatch<K, V>[] = [];
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

/** Two halves of a batch, by owner; for finding the one that the target refuses. Removals go with the second. */
export function halves<K, V>(batch: PlanBatch<K, V>, ownerOf: (key: K) => string): [PlanBatch<K, V>, PlanBatch<K, V>] {
  const middle = Math.ceil(batch.owners.length / 2);
  const first = new Set(batch.owners.slice(0, middle));
  const pick = (wantFirst: boolean): Map<K, V> => new Map([...batch.put].filter(([key]) => first.has(ownerOf(key)) === wantFirst));
  return [
    { put: pick(true), remove: new Set(), owners: batch.owners.slice(0, middle) },
    { put: pick(false), remove: batch.remove, owners: batch.owners.slice(middle) },
  ];
}

/** The batch without these keys; the same object if it has none of them. */
export function without<K, V>(batch: PlanBatch<K, V>, keys: ReadonlySet<K>): PlanBatch<K, V> {
  const concerned = [...keys].filter((key) => batch.put.has(key) || batch.remove.has(key));
  if (concerned.length === 0) return batch;
  const [put, remove] = [new Map(batch.put), new Set(batch.remove)];
  for (const key of concerned) {
    put.delete(key);
    remove.delete(key);
  }
  return { ...batch, put, remove };
}
