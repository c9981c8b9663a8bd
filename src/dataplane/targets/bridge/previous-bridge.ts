import { cookieFeature } from '../../pipeline/cookie.ts';
import { tables } from '../../pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, cookieIn, isFlowKey, tableOfKey } from './bridge-entry.ts';

/** Reports the origin of a bridge's flows: an agent with policy enforcement, one without, or none (no flows of pods). */
export function bridgeBefore(held: ReadonlyMap<BridgeKey, BridgeValue>): 'with policy' | 'without policy' | 'empty' {
  let hasPods = false;
  for (const [key, value] of held) {
    if (!isFlowKey(key)) continue;
    // Not `egressEntry`: in releases up to 0.3.0 its number belonged to another table, with a flow for packets without a match.
    if (tableOfKey(key) === tables.egressLookup.id) return 'with policy';
    hasPods ||= cookieFeature(cookieIn(value)) === 'pod';
  }
  return hasPods ? 'without policy' : 'empty';
}
