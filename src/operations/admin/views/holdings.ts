import type { Failure } from '../../../api/failure.ts';
import type { ObjectView, Share } from '../../../api/object.ts';
import { failure, type ReconciledTarget } from '../../diagnose/entries/compare.ts';
import type { NodeSnapshot } from '../../diagnose/entries/node-reader.ts';
import type { Parts } from '../../diagnose/entries/targets.ts';

type Holdings = Pick<ObjectView, 'state' | 'owners' | 'flows' | 'host' | 'differences' | 'error'>;

/** Counts the present ones of all entries that some owners desire. */
export function holdingsOf(parts: Parts, snapshot: NodeSnapshot, owners: readonly string[]): Holdings {
  const flows = shareOf(parts.bridge, snapshot.bridge, owners);
  const host = shareOf(parts.host, snapshot.host, owners);
  const differences = [...sentences('flows and groups of the bridge', flows), ...sentences('routes, addresses and neighbours', host)];
  const error = refusalOf(parts, owners);
  return { state: stateOf(flows, host), owners, flows, host, differences, ...(error ? { error } : {}) };
}

function shareOf<K extends string, V>(
  { desired, equal }: ReconciledTarget<K, V>,
  held: ReadonlyMap<K, V>,
  owners: readonly string[],
): Share {
  let [wanted, there, changed] = [0, 0, 0];
  for (const key of new Set(owners.flatMap((owner) => desired.keysOf(owner)))) {
    const [want, actual] = [desired.wanted(key), held.get(key)];
    if (want === undefined) continue;
    wanted++;
    if (actual === undefined) continue;
    if (equal(actual, want)) there++;
    else changed++;
  }
  return { wanted, held: there, changed };
}

function sentences(what: string, { wanted, held, changed }: Share): string[] {
  const missing = wanted - held - changed;
  return [
    ...(missing > 0 ? [`${missing} of ${wanted} ${what} are missing`] : []),
    ...(changed > 0 ? [`${changed} of ${wanted} ${what} differ from the desired ones`] : []),
  ];
}

function stateOf(...shares: readonly Share[]): Holdings['state'] {
  if (shares.some(({ wanted, held, changed }) => wanted > held + changed)) return 'missing';
  return shares.some(({ changed }) => changed > 0) ? 'changed' : 'ok';
}

function refusalOf({ bridge, switch: switchPart, host, links }: Parts, owners: readonly string[]): Failure | undefined {
  const nowMs = performance.now();
  for (const { reconciler } of [bridge, switchPart, host, links])
    for (const refused of reconciler.failures()) if (owners.includes(refused.owner)) return failure(refused.error, refused.atMs, nowMs);
  return undefined;
}
