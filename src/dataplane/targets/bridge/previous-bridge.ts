import { cookieFeature } from '../../pipeline/cookie.ts';
import { tables } from '../../pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, cookieIn, isFlowKey, tableOfKey } from './bridge-entry.ts';

/** Whose flows a bridge has: of an agent that polices pods, of one that does not, or of nobody's pods. */
export function bridgeBefore(held: ReadonlyMap<BridgeKey, BridgeValue>): 'with policy' | 'without policy' | 'empty' {
  let hasPods = false;
  for (const [key, value] of held) {
    if (!isFlowKey(key)) continue;
    // Not `egressEntry`, whose number another table had in releases up to 0.3.0, with a flow for what it did not match.
    if (tableOfKey(key) === tables.egressLookup.id) return 'with policy';
    hasPods ||= cookieFeature(cookieIn(value)) === 'pod';
  }
  return hasPods ? 'without policy' : 'empty';
}
