import type { EntryState } from '../../../api/entry.ts';
import type { Failure } from '../../../api/failure.ts';
import type { DesiredState } from '../../../dataplane/reconcile/desired-state.ts';
import type { Reconciler } from '../../../dataplane/reconcile/reconciler.ts';

/** Target of the node: its desired state, and its reconciler. */
export interface ReconciledTarget<K extends string, V> {
  readonly desired: DesiredState<K, V>;
  readonly reconciler: Pick<Reconciler<K, V>, 'failures' | 'contested'>;
  readonly equal: (a: V, b: V) => boolean;
}

/** Key that is desired or present. */
export interface Compared<K, V> {
  readonly key: K;
  readonly state: Exclude<EntryState, 'learned'>;
  readonly owners: readonly string[];
  readonly wanted: V | undefined;
  readonly actual: V | undefined;
  readonly error?: Failure;
}

/** Compares the current desired state with what was just read from the node, key by key; desired ones first. */
export function* compare<K extends string, V>(part: ReconciledTarget<K, V>, held: ReadonlyMap<K, V>): Generator<Compared<K, V>> {
  const { desired } = part;
  const why = reasons(part);
  for (const key of desired.keys()) yield compareKey(part, key, held.get(key), why);
  for (const [key, actual] of held)
    if (desired.wanted(key) === undefined) yield { key, state: 'extra', owners: [], wanted: undefined, actual };
}

function compareKey<K extends string, V>(
  { desired, equal }: ReconciledTarget<K, V>,
  key: K,
  actual: V | undefined,
  why: Reasons<K>,
): Compared<K, V> {
  const wanted = desired.wanted(key);
  const owners = desired.ownersOf(key);
  const state = actual === undefined ? 'missing' : wanted !== undefined && equal(actual, wanted) ? 'ok' : 'changed';
  const error = state === 'ok' ? undefined : why(key, owners);
  return { key, state, owners, wanted, actual, ...(error ? { error } : {}) };
}

type Reasons<K> = (key: K, owners: readonly string[]) => Failure | undefined;

/** Reasons why an entry may not be in sync: its owner was refused, or another program keeps changing it. */
function reasons<K extends string, V>({ reconciler }: ReconciledTarget<K, V>): Reasons<K> {
  const nowMs = performance.now();
  const refused = new Map(reconciler.failures().map(({ owner, error, atMs }) => [owner, failure(error, atMs, nowMs)]));
  const contested = reconciler.contested();
  return (key, owners) => {
    for (const owner of owners) if (refused.has(owner)) return refused.get(owner);
    const fight = contested.get(key);
    return fight && { message: `another program keeps changing it; repaired ${fight.repairs} times` };
  };
}

/** @param atMs by `performance.now()` */
export function failure(error: Error, atMs: number | undefined, nowMs: number): Failure {
  return { message: error.message, ...(atMs === undefined ? {} : { ageSeconds: Math.max(0, Math.round((nowMs - atMs) / 1_000)) }) };
}
