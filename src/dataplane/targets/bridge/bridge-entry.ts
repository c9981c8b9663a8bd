import { ByteWriter } from '../../../base/bytes/bytes.ts';
import type { FlowMod } from '../../../openflow/flows/flow-mod.ts';
import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { decodeInstructions, encodeInstructions } from '../../../openflow/flows/instructions.ts';
import { encodeGroup, encodeGroupAround, type Group as OpenFlowGroup } from '../../../openflow/groups/group.ts';
import { encodeMatch } from '../../../openflow/match/match.ts';
import { meterFlag, type Meter as OpenFlowMeter, writeMeterMod } from '../../../openflow/meter.ts';
import type { Wanted } from '../../desired/host-entries.ts';
import { cookieOf, type Owner } from '../../pipeline/cookie.ts';
import type { Flow, Group, Meter } from '../../pipeline/flow.ts';
import { PatternFlow } from '../../pipeline/flow-pattern.ts';
import { tables } from '../../pipeline/tables.ts';
import { deniedMeters, ingressMeters, openedMeters } from '../../pipeline/well-known.ts';
import { BucketTemplates } from './encoding/bucket-template.ts';
import { EntryTemplates } from './encoding/entry-flow-template.ts';
import { packGroup, unpackGroup } from './encoding/group-bytes.ts';
import { toInstructions, toOpenFlowMatch } from './encoding/to-openflow.ts';

/**
 * Identity of an entry in OVS, one byte per character. `F`, u8 table, u16 priority, match: a flow (OpenFlow 1.5.1, "Flow Table"). `G`, u32
 * group: a group. `M`, u32 meter: a meter. `P`, u32 port, its address in hexadecimal digits: OpenFlow settings of a port. `C`: the fragment
 * handling mode. The last two are present only where they differ from a new bridge.
 *
 * Keys and values are strings because V8 stores them as plain bytes and compares them fast: desired and observed state of 100,000 flows
 * share one copy.
 */
export type BridgeKey = string & { readonly brand: 'BridgeKey' };

/**
 * Rest of the entry: u64 cookie, u16 idle timeout, u16 hard timeout, u16 flags, instructions; or the whole meter; or the whole group,
 * packed.
 */
export type BridgeValue = string & { readonly brand: 'BridgeValue' };

/** Length of a flow's value before its instructions, and position of the key's match in the value. */
export const VALUE_HEADER_BYTES = 14;
export const KEY_HEADER_BYTES = 4;
/** Length of a kind and a u32. */
const NUMBERED_KEY_LENGTH = 5;
const FLOW_KEY = 'F'.charCodeAt(0);
/** Highest number of an ordinary meter; those above are OVS's own. Source: OpenFlow 1.5.1 `OFPM_MAX`. */
const METER_MAX = 0xffff_0000;

/** Returns the bridge entries that `owner` wants, ready to compare and to send. */
export function encodeBridgeEntries(
  owner: Owner,
  { flows, groups, meters }: Pick<Wanted, 'flows' | 'groups' | 'meters'>,
): ReadonlyMap<BridgeKey, BridgeValue> {
  const entries = new Map<BridgeKey, BridgeValue>();
  for (const meter of meters) entries.set(meterKey(meter.id), meterValue(toOpenFlowMeter(meter)));
  for (const group of groups) entries.set(groupKey(group.id), wantedGroupValue(group));
  for (const flow of flows) {
    const [key, value] = flow instanceof PatternFlow ? entryTemplateOf.entryOf(owner, flow) : flowEntry(flow, cookieOf(owner));
    entries.set(key as BridgeKey, value as BridgeValue);
  }
  return entries;
}

function flowEntry(flow: Flow, cookie: bigint): readonly [BridgeKey, BridgeValue] {
  return [keyOfFlow(flow), flowValue({ cookie, instructions: encodeInstructions(toInstructions(flow.steps)) })];
}

const entryTemplateOf = new EntryTemplates((flow) => flowEntry(flow, 0n));

function keyOfFlow(flow: Flow): BridgeKey {
  return flowKey(tables[flow.table].id, flow.priority, encodeMatch(toOpenFlowMatch(flow.match)));
}

/** Returns the key of a flow. Built from bytes at once: V8 keeps the parts of a concatenated string, which takes three times the memory. */
function flowKey(table: number, priority: number, match: Uint8Array): BridgeKey {
  scratch.writeUInt8(FLOW_KEY, 0);
  scratch.writeUInt8(table, 1);
  scratch.writeUInt16BE(priority, 2);
  scratch.set(match, KEY_HEADER_BYTES);
  return scratch.toString('latin1', 0, KEY_HEADER_BYTES + match.length) as BridgeKey;
}

/** Buffer of the maximum length of an OpenFlow message. */
const scratch = Buffer.alloc(0x10000);

function groupKey(id: number): BridgeKey {
  return numberedKey('G', id);
}

function meterKey(id: number): BridgeKey {
  return numberedKey('M', id);
}

function numberedKey(kind: 'G' | 'M' | 'P', id: number): BridgeKey {
  return `${kind}${String.fromCharCode(id >>> 24, (id >>> 16) & 0xff, (id >>> 8) & 0xff, id & 0xff)}` as BridgeKey;
}

export function isFlowKey(key: BridgeKey): boolean {
  return key.startsWith('F');
}

export function isGroupKey(key: BridgeKey): boolean {
  return key.startsWith('G');
}

export function isMeterKey(key: BridgeKey): boolean {
  return key.startsWith('M');
}

/** Reports whether the key is the meter of a pod's denied packets. It belongs to policy, like flows with a policy cookie. */
export function isDeniedMeterKey(key: BridgeKey): boolean {
  return isMeterKey(key) && numberOf(key) >= deniedMeters.first && !isOpenedMeterKey(key);
}

/** Reports whether the key is a meter of admitted connections that are copied to the agent. */
export function isOpenedMeterKey(key: BridgeKey): boolean {
  return isMeterKey(key) && numberOf(key) >= openedMeters.first;
}

/** Reports whether the key is an OpenFlow setting other than a flow, group or meter. */
export function isOpenFlowSetting(key: BridgeKey): boolean {
  return key.startsWith('P') || isFragmentsKey(key);
}

export const fragmentsKey = 'C' as BridgeKey;

export function isFragmentsKey(key: BridgeKey): boolean {
  return key === fragmentsKey;
}

/** Returns the key of a port's setting. It includes the address, which a port-mod must name. */
export function portSettingKey({ number, address }: { readonly number: number; readonly address: number }): BridgeKey {
  return `${numberedKey('P', number)}${address.toString(16)}` as BridgeKey;
}

export function portOfSettingKey(key: BridgeKey): { readonly port: number; readonly address: number } {
  return { port: numberOf(key), address: Number.parseInt(key.slice(NUMBERED_KEY_LENGTH), 16) };
}

/** Reports whether the key is the meter of a pod's received packets. */
export function isIngressMeterKey(key: BridgeKey): boolean {
  return isMeterKey(key) && numberOf(key) >= ingressMeters.first && numberOf(key) < deniedMeters.first;
}

/**
 * Returns the position of an entry on a packet's path, counted from the front. Groups come after the table that uses them, all else after
 * the first table. Within a table, higher priorities lie deeper: an exception is installed before the rule that it is an exception of, and
 * removed after it.
 */
export function depthOfKey(key: BridgeKey): number {
  if (isFlowKey(key)) return key.charCodeAt(1) + ((key.charCodeAt(2) << 8) | key.charCodeAt(3)) / 2 ** 17;
  if (isGroupKey(key)) return tables.balance.id + 0.5;
  if (isIngressMeterKey(key)) return tables.output.id + 0.5;
  if (isOpenedMeterKey(key)) return tables.commit.id + 0.5;
  return (isDeniedMeterKey(key) ? tables.ingressVerdict.id : tables.classify.id) + 0.5;
}

/** Table of a flow; undefined for groups and meters. */
export function tableOfKey(key: BridgeKey): number | undefined {
  return isFlowKey(key) ? key.charCodeAt(1) : undefined;
}

export function observedFlow(entry: FlowStats): [BridgeKey, BridgeValue] {
  return [flowKey(entry.table, entry.priority, entry.match), flowValue(entry)];
}

export function observedGroup(group: OpenFlowGroup): [BridgeKey, BridgeValue] {
  return [groupKey(group.id), groupValue(group)];
}

/** Like `observedGroup`, from the bytes of the group-mod "add". */
export function observedGroupMod(id: number, message: Uint8Array): [BridgeKey, BridgeValue] {
  return [groupKey(id), packGroup(message) as BridgeValue];
}

/** Reports whether a meter is an ordinary one; OVS's own meters are not part of the desired state. */
export function isOrdinaryMeter({ id }: OpenFlowMeter): boolean {
  return id <= METER_MAX;
}

export function observedMeter(meter: OpenFlowMeter): [BridgeKey, BridgeValue] {
  return [meterKey(meter.id), meterValue(meter)];
}

type FlowBody = Pick<FlowStats, 'cookie' | 'instructions'> & Partial<Pick<FlowStats, 'idleTimeout' | 'hardTimeout' | 'flags'>>;

function flowValue({ cookie, instructions, idleTimeout = 0, hardTimeout = 0, flags = 0 }: FlowBody): BridgeValue {
  scratch.writeBigUInt64BE(cookie, 0);
  scratch.writeUInt16BE(idleTimeout, 8);
  scratch.writeUInt16BE(hardTimeout, 10);
  scratch.writeUInt16BE(flags, 12);
  scratch.set(instructions, VALUE_HEADER_BYTES);
  return scratch.toString('latin1', 0, VALUE_HEADER_BYTES + instructions.length) as BridgeValue;
}

function groupValue(group: OpenFlowGroup): BridgeValue {
  return packGroup(encodeGroup(group)) as BridgeValue;
}

const bucketTemplates = new BucketTemplates();

function wantedGroupValue({ id, buckets }: Group): BridgeValue {
  const message = encodeGroupAround({ id, type: 'select', selection: { method: 'dp_hash' } }, (w) => {
    let index = 0;
    for (const bucket of buckets) bucketTemplates.write(w, bucket, index++);
  });
  return packGroup(message) as BridgeValue;
}

function meterValue(meter: OpenFlowMeter): BridgeValue {
  const w = new ByteWriter(64);
  writeMeterMod(w, { command: 'add', ...meter });
  return latin1Of(w.finish()) as BridgeValue;
}

function toOpenFlowMeter({ id, unit, rate, burst }: Meter): OpenFlowMeter {
  const counts = unit === 'packets' ? meterFlag.packets : meterFlag.kilobits;
  return { id, flags: counts + meterFlag.burst, bands: [{ kind: 'drop', rate, burst }] };
}

/** OpenFlow form of a key and its value. */
interface DecodedFlow {
  readonly table: number;
  readonly priority: number;
  readonly match: Uint8Array;
  readonly cookie: bigint;
  readonly instructions: Uint8Array;
}

export function decodeFlowEntry(key: BridgeKey, value: BridgeValue): DecodedFlow {
  const bytes = bytesOf(value);
  return {
    table: key.charCodeAt(1),
    priority: key.charCodeAt(2) * 256 + key.charCodeAt(3),
    match: bytesOf(key.slice(4)),
    cookie: bytes.readBigUInt64BE(0),
    instructions: bytes.subarray(VALUE_HEADER_BYTES),
  };
}

/** Returns the cookie from a flow's value, without decoding the rest: a start does this for all flows that it finds. */
export function cookieIn(value: BridgeValue): bigint {
  return (BigInt(wordAt(value, 0)) << 32n) | BigInt(wordAt(value, 4));
}

function wordAt(text: string, at: number): number {
  return ((text.charCodeAt(at) << 24) | (text.charCodeAt(at + 1) << 16) | (text.charCodeAt(at + 2) << 8) | text.charCodeAt(at + 3)) >>> 0;
}

/** Returns the groups and meters that a flow uses: OVS refuses the flow without them, and deletes it with them. */
export function neededByFlow(key: BridgeKey, value: BridgeValue): readonly BridgeKey[] {
  if (!isFlowKey(key)) return [];
  const { apply = [], write = [] } = decodeInstructions(decodeFlowEntry(key, value).instructions);
  return [...apply, ...write].flatMap((action) => {
    if (action.kind === 'group') return [groupKey(action.group)];
    if (action.kind === 'controller') return action.meter === undefined ? [] : [meterKey(action.meter)];
    return action.kind === 'meter' ? [meterKey(action.meter)] : [];
  });
}

/** Returns the whole flow, for printing; its counters are not in the value. */
export function describeFlowEntry(
  key: BridgeKey,
  value: BridgeValue,
): DecodedFlow & Required<Pick<FlowStats, 'idleTimeout' | 'hardTimeout' | 'flags' | 'importance'>> {
  const bytes = bytesOf(value);
  const [idleTimeout, hardTimeout, flags] = [bytes.readUInt16BE(8), bytes.readUInt16BE(10), bytes.readUInt16BE(12)];
  return { ...decodeFlowEntry(key, value), idleTimeout, hardTimeout, flags, importance: 0 };
}

export function addFlow(key: BridgeKey, value: BridgeValue): FlowMod {
  return { command: 'add', ...decodeFlowEntry(key, value) };
}

export function deleteFlow(key: BridgeKey): FlowMod {
  return {
    command: 'deleteStrict',
    table: key.charCodeAt(1),
    priority: key.charCodeAt(2) * 256 + key.charCodeAt(3),
    match: bytesOf(key.slice(4)),
    instructions: new Uint8Array(0),
  };
}

/** Returns the group-mod message "add" of a value. */
export function groupMessage(value: BridgeValue): Uint8Array {
  return unpackGroup(value);
}

/** Returns a value without packing, for documents. */
export function plainValue(key: BridgeKey, value: BridgeValue): Uint8Array {
  return isGroupKey(key) ? unpackGroup(value) : bytesOf(value);
}

/** Reverse of `plainValue`. */
export function valueOfPlain(key: BridgeKey, plain: Uint8Array): BridgeValue {
  return (isGroupKey(key) ? packGroup(plain) : latin1Of(plain)) as BridgeValue;
}

/** Returns the meter-mod message "add" of a value. */
export function meterMessage(value: BridgeValue): Uint8Array {
  return bytesOf(value);
}

/** Returns the number of a group, a meter or a port's setting. */
export function numberOf(key: BridgeKey): number {
  return bytesOf(key).readUInt32BE(1);
}

function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}
