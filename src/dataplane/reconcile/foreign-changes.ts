import { differences } from './differences.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';

type ForeignChangeOptions<K extends string, V> = Pick<ReconcilerOptions<K, V>, 'desired' | 'equal' | 'target'>;

/** Keys that another process has changed, and those among them that are desired and missing. */
interface ForeignChanges<K> {
  readonly keys: readonly K[];
  readonly lost: readonly K[];
}

/**
 * Finds the keys that another process has changed.
 *
 * @param lastTrusted known content of the target before
 * @param actual content observed since; both may change meanwhile
 */
export async function foreignChanges<K extends string, V>(
  lastTrusted: ReadonlyMap<K, V>,
  actual: ReadonlyMap<K, V>,
  options: ForeignChangeOptions<K, V>,
): Promise<ForeignChanges<K>> {
  const foreign: K[] = [];
  for await (const key of differences(lastTrusted, actual, options.equal))
    if (lastTrusted.has(key) ? isChanged(key, lastTrusted.get(key), actual.get(key), options) : isForeign(key, actual.get(key), options))
      foreign.push(key);
  return { keys: foreign, lost: foreign.filter((key) => !actual.has(key) && options.desired.wanted(key) !== undefined) };
}

/**
 * Reports whether two observed values differ. Observations compared with different desired entries may differ although no process has
 * changed anything. A missing entry that no owner wants any more needs no repair: some targets observe desired entries only.
 */
function isChanged<K extends string, V>(
  key: K,
  before: V | undefined,
  after: V | undefined,
  { desired, target }: Pick<ForeignChangeOptions<K, V>, 'desired' | 'target'>,
): boolean {
  if (after === undefined && desired.wanted(key) === undefined) return false;
  return before === undefined || after === undefined || target.sameDesired?.(before, after) !== false;
}

/**
 * Reports whether a difference is a foreign change. Excludes keys that became desired since and may be observed for the first time, and
 * leftovers of entries that were desired.
 */
function isForeign<K extends string, V>(key: K, value: V | undefined, { desired, target }: ForeignChangeOptions<K, V>): boolean {
  if (desired.isDirty(key) || value === undefined) return false;
  return desired.wanted(key) !== undefined || target.isLeftover?.(key, value) !== true;
}
