import { differences } from './differences.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';

type ForeignChangeOptions<K extends string, V> = Pick<ReconcilerOptions<K, V>, 'desired' | 'equal' | 'target'>;

/**
 * What another process has changed.
 *
 * @param lastTrusted what the target was known to hold before
 * @param actual what it was seen to hold since; both may change meanwhile
 */
export async function foreignChanges<K extends string, V>(
  lastTrusted: ReadonlyMap<K, V>,
  actual: ReadonlyMap<K, V>,
  options: ForeignChangeOptions<K, V>,
): Promise<readonly K[]> {
  const foreign: K[] = [];
  for await (const key of differences(lastTrusted, actual, options.equal))
    if (lastTrusted.has(key) ? isChanged(lastTrusted.get(key), actual.get(key), options) : isForeign(key, actual.get(key), options))
      foreign.push(key);
  return foreign;
}

/** An observation that was made while something else was desired differs from a later one although no process has changed anything. */
function isChanged<V>(before: V | undefined, after: V | undefined, { target }: Pick<ForeignChangeOptions<string, V>, 'target'>): boolean {
  return before === undefined || after === undefined || target.sameDesired?.(before, after) !== false;
}

/** Not what is only wanted since, and may be looked at for the first time; nor what something that was wanted has left behind. */
function isForeign<K extends string, V>(key: K, value: V | undefined, { desired, target }: ForeignChangeOptions<K, V>): boolean {
  if (desired.isDirty(key) || value === undefined) return false;
  return desired.wanted(key) !== undefined || target.isLeftover?.(key, value) !== true;
}
