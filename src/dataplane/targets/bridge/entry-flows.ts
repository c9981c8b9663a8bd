import { cookieFeature } from '../../pipeline/cookie.ts';
import { tables } from '../../pipeline/tables.ts';
import type { EntryPoints } from '../../reconcile/refill.ts';
import { type BridgeKey, type BridgeValue, cookieIn, tableOfKey } from './bridge-entry.ts';

/** Entry points of the bridge: flows of the table through which every packet enters. */
export const bridgeEntryPoints: EntryPoints<BridgeKey, BridgeValue> = {
  has: (key) => tableOfKey(key) === tables.classify.id,
  isOurs: (_, value) => cookieFeature(cookieIn(value)) !== undefined,
};
