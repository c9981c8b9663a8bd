import { ByteWriter } from '../../base/bytes/bytes.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import {
  addFlow,
  type BridgeKey,
  type BridgeValue,
  describeFlowEntry,
  groupMessage,
  isFlowKey,
  isGroupKey,
  meterMessage,
  plainValue,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import { writeFlowMod } from '../../openflow/flows/flow-mod.ts';
import { decodeGroupMod } from '../../openflow/groups/group.ts';
import { decodeMeterMod } from '../../openflow/meter.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import { printGroup } from '../../openflow/text/group-text.ts';
import { printMeterSpec } from '../../openflow/text/meter-text.ts';

/**
 * Output formats of a bridge's entries, one line each:
 *
 * - `text`   as `ovs-ofctl --no-names --no-stats dump-flows`, `dump-groups` and `dump-meters` print them
 * - `names`  the same with the names of tables
 * - `bundle` flows and groups in the format of `ovs-ofctl bundle`, groups first
 * - `hex`    the OpenFlow 1.5 messages that add them, in the format of `seinectl wire decode`
 */
const bridgeForms = ['text', 'names', 'bundle', 'hex'] as const;
export type BridgeForm = (typeof bridgeForms)[number];

/** Meters, groups, then flows by table and descending priority. */
export function bridgeLines(entries: Iterable<readonly [BridgeKey, BridgeValue]>, form: BridgeForm): string[] {
  const write = writers[form];
  return [...entries].toSorted(([a], [b]) => order(a, b)).flatMap(([key, value]) => write(key, value) ?? []);
}

type EntryWriter = (key: BridgeKey, value: BridgeValue) => string | undefined;

const writers: Readonly<Record<BridgeForm, EntryWriter>> = {
  text: (key, value) => entryText(key, value),
  names: (key, value) => entryText(key, value, { table: tableName }),
  // The tool accepts no meters in a bundle.
  bundle: (key, value) =>
    isFlowKey(key) ? `flow add ${entryText(key, value)}` : isGroupKey(key) ? `group add ${entryText(key, value)}` : undefined,
  hex: (key, value) => Buffer.from(message(key, value)).toString('hex'),
};

export function entryText(key: BridgeKey, value: BridgeValue, names: Parameters<typeof printFlow>[1] = {}): string {
  if (isFlowKey(key)) return printFlow(describeFlowEntry(key, value), names);
  if (isGroupKey(key)) return printGroup(decodeGroupMod(groupMessage(value)), names);
  return printMeterSpec(decodeMeterMod(meterMessage(value)));
}

function message(key: BridgeKey, value: BridgeValue): Uint8Array {
  if (!isFlowKey(key)) return plainValue(key, value);
  const w = new ByteWriter(256);
  writeFlowMod(w, addFlow(key, value));
  return w.finish();
}

const kinds = 'MGF';

/** A flow's key begins with table and priority; higher priorities come first. */
function order(a: BridgeKey, b: BridgeKey): number {
  const kind = kinds.indexOf(a.charAt(0)) - kinds.indexOf(b.charAt(0));
  if (kind !== 0) return kind;
  if (!isFlowKey(a)) return a < b ? -1 : 1;
  const place = (key: BridgeKey): number => key.charCodeAt(1) * 0x1_0000 + (0xffff - key.charCodeAt(2) * 256 - key.charCodeAt(3));
  return place(a) - place(b) || (a < b ? -1 : 1);
}
