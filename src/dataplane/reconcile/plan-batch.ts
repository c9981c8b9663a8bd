import type { Plan } from './target.ts';

/** Part of a plan that is applied at once, with the owners it is for. */
export interface PlanBatch<K, V> extends Plan<K, V> {
  readonly owners: readonly string[];
}

/**
 * Cuts a plan into batches of about `size` entries without separating the entries of one owner: groups and the flows that use them, or a
 * policy's isolation and its exceptions, take effect together. Removals no longer have an owner and come last, so that nothing is missing
 * in between.
 *
 * Entries deeper in the pipeline are put before those that forward to them, and removed after them: owners are ordered by their entry
 * nearest to the front, removals one by one. If all entries of an owner are at one depth, no packet is forwarded to them before they are
 * installed.
 *
 * @param depthOf position of an entry on a packet's path, counted from the front; any order if omitted
 * @param groups keys that must not be split between batches; they come first
 */
export function planBatches<K, V>(
  plan: Plan<K, V>,
  ownerOf: (key: K) => string,
  size: number,
  depthOf?: (key: K) => number,
  groups: readonly ReadonlySet<K>[] = [],
): PlanBatch<K, V>[] {
  const whole = wholeBatches(plan, ownerOf, groups);
  if (whole.length === 0) return cutBatches(plan, ownerOf, size, depthOf);
  if (plan.put.size + plan.remove.size > size) {
    const [put, remove] = [new Map(plan.put), new Set(plan.remove)];
    for (const batch of whole) {
      for (const key of batch.put.keys()) put.delete(key);
      for (const key of batch.remove) remove.delete(key);
    }
    return [...whole, ...cutBatches({ put, remove }, ownerOf, size, depthOf)];
  }
  return cutBatches(plan, ownerOf, size, depthOf).map((batch) => ({ ...batch, isWhole: true }));
}

/** Returns the parts of the groups that are in the plan; groups that share a key become one. */
function wholeBatches<K, V>(
  { put, remove }: Plan<K, V>,
  ownerOf: (key: K) => string,
  groups: readonly ReadonlySet<K>[],
): PlanBatch<K, V>[] {
  let joined: Set<K>[] = [];
  for (const group of groups) {
    const keys = new Set([...group].filter((key) => put.has(key) || remove.has(key)));
    if (keys.size === 0) continue;
    const sharing = joined.filter((other) => [...other].some((key) => keys.has(key)));
    for (const other of sharing) for (const key of other) keys.add(key);
    joined = [...joined.filter((other) => !sharing.includes(other)), keys];
  }
  return joined.map((keys) => ({
    put: new Map([...put].filter(([key]) => keys.has(key))),
    remove: new Set([...remove].filter((key) => keys.has(key))),
    owners: [...new Set([...keys].filter((key) => put.has(key)).map(ownerOf))],
    isWhole: true,
  }));
}

function cutBatches<K, V>(plan: Plan<K, V>, ownerOf: (key: K) => string, size: number, depthOf?: (key: K) => number): PlanBatch<K, V>[] {
  const isOne = plan.put.size + plan.remove.size <= size; // and takes effect at once
  const inOrder = depthOf && !isOne ? depthOf : () => 0;
  const result: PlanBatch<K, V>[] = [];
  let put = new Map<K, V>();
  let owners: string[] = [];
  const close = (remove: ReadonlySet<K>): void => {
    if (put.size + remove.size > 0) result.push({ put, remove, owners });
    put = new Map();
    owners = [];
  };
  for (const { owner, key, value, more = [] } of ownersByDepth(plan.put, ownerOf, inOrder)) {
    if (put.size > 0 && put.size + 1 + more.length > size) close(new Set());
    owners.push(owner);
    put.set(key, value);
    for (const [another, its] of more) put.set(another, its);
  }
  if (put.size + plan.remove.size > size) close(new Set());
  const removals = byDepth(plan.remove, inOrder)
    .toReversed()
    .flatMap(({ of }) => of);
  do close(new Set(removals.splice(0, size)));
  while (removals.length > 0);
  return result;
}

/**
 * Entries that an owner puts, and the depth of the one nearest to the front. Nearly all owners put one entry, and there may be a hundred
 * thousand.
 */
interface OwnerPut<K, V> {
  readonly owner: string;
  readonly key: K;
  readonly value: V;
  more?: (readonly [K, V])[];
  depth: number;
}

/** Owners with the entries they put, deepest first by their entry nearest to the front. */
function ownersByDepth<K, V>(put: ReadonlyMap<K, V>, ownerOf: (key: K) => string, depthOf: (key: K) => number): readonly OwnerPut<K, V>[] {
  const byOwner = new Map<string, OwnerPut<K, V>>();
  for (const [key, value] of put) {
    const owner = ownerOf(key);
    const depth = depthOf(key);
    const known = byOwner.get(owner);
    if (known === undefined) byOwner.set(owner, { owner, key, value, depth });
    else {
      known.more ??= [];
      known.more.push([key, value]);
      known.depth = Math.min(known.depth, depth);
    }
  }
  return byDepth(byOwner.values(), ({ depth }) => depth).flatMap(({ of }) => of);
}

/** Orders by depth, deepest first. There are few depths. */
function byDepth<T>(things: Iterable<T>, depthOf: (thing: T) => number): readonly { readonly depth: number; readonly of: readonly T[] }[] {
  return Array.from(Map.groupBy(things, depthOf), ([depth, of]) => ({ depth, of })).sort((a, b) => b.depth - a.depth);
}

/** Splits a batch by owner into halves, to find the owner that the target refuses. Removals go into the second half. */
export function halves<K, V>(batch: PlanBatch<K, V>, ownerOf: (key: K) => string): [PlanBatch<K, V>, PlanBatch<K, V>] {
  const middle = Math.ceil(batch.owners.length / 2);
  const first = new Set(batch.owners.slice(0, middle));
  const pick = (wantFirst: boolean): Map<K, V> => new Map([...batch.put].filter(([key]) => first.has(ownerOf(key)) === wantFirst));
  return [
    { put: pick(true), remove: new Set(), owners: batch.owners.slice(0, middle) },
    { put: pick(false), remove: batch.remove, owners: batch.owners.slice(middle) },
  ];
}

/** Returns the batch without these keys; the same object if it has none of them. */
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
