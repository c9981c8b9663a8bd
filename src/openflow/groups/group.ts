import { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readActions, writeActions } from '../actions/actions.ts';
import { decodeOxmFields, type Match } from '../match/match.ts';
import { type AnyValue, requireField, writeOxm } from '../match/oxm.ts';
import { multipartType, writeMultipartRequest } from '../multipart.ts';
import { eachProperty, textOf } from '../properties.ts';
import { beginMessage, endMessage, messageType, OPENFLOW_13, OPENFLOW_15, ofGroup, readHeader, type Version } from '../protocol.ts';
import { type Bucket, type GroupType, groupTypes } from './bucket.ts';
import { readBucketsIn13, writeBucketIn13 } from './group-13.ts';

/** Source: OpenFlow 1.5.1 `ofp_group_mod_command`; `addOrModify` is specific to Open vSwitch. */
export const groupCommands = { add: 0, modify: 1, delete: 2, insertBuckets: 3, removeBuckets: 5, addOrModify: 0x8000 } as const;
export type GroupCommand = keyof typeof groupCommands;

/** Position to insert at, or buckets to remove, besides the number of a bucket. Source: OpenFlow 1.5.1 `ofp_bucket_id`. */
export const bucketPlace = { first: 0xffff_fffd, last: 0xffff_fffe, all: 0xffff_ffff } as const;

/** Selection method of a `select` group. Source: Open vSwitch's `selection_method` group property (ovs-ofctl(8) "Group Syntax"). */
export interface GroupSelection {
  /** `dp_hash` or `hash`. */
  readonly method: string;
  readonly parameter?: bigint;
  /** With `hash`: the fields hashed, each with the bits that count. */
  readonly fields?: Match;
}

export interface Group {
  readonly id: number;
  readonly type: GroupType;
  readonly selection?: GroupSelection;
  readonly buckets: readonly Bucket[];
}

export interface GroupMod extends Group {
  readonly command: GroupCommand;
  /** Insert: the bucket to insert after, or a `bucketPlace`. Remove: the bucket, or a `bucketPlace`. Otherwise absent. */
  readonly place?: number;
}

export const everyGroup: GroupMod = { command: 'delete', id: ofGroup.all, type: 'all', buckets: [] };

const modScratch = new ByteWriter(4096);

/** Encodes a group as bytes for comparison: equal exactly if the groups, as sent or as read back, are the same. */
export function encodeGroup(group: Group, version: Version = OPENFLOW_15): Uint8Array {
  const w = modScratch.truncate(0);
  writeGroupMod(
    w,
    {
      command: 'add',
      id: group.id,
      type: group.type,
      buckets: group.buckets,
      ...(group.selection && { selection: group.selection }),
    },
    version,
  );
  return w.finish();
}

/**
 * Like `encodeGroup` in OpenFlow 1.5, with buckets that `writeBuckets` appends: for callers with many similar groups. Valid until the next
 * group is encoded.
 */
export function encodeGroupAround(head: Omit<Group, 'buckets'>, writeBuckets: (w: ByteWriter) => void): Uint8Array {
  const w = modScratch.truncate(0);
  const start = beginMessage(w, messageType.groupMod, OPENFLOW_15);
  w.u16(groupCommands.add).u8(groupTypes.indexOf(head.type)).u8(0).u32(head.id);
  const lengthAt = w.length;
  w.u16(0).u16(0).u32(bucketPlace.all);
  writeBuckets(w);
  w.patchU16(lengthAt, w.length - lengthAt - 8);
  if (head.selection !== undefined) writeSelection(w, head.selection);
  endMessage(w, start);
  return w.written();
}

const WEIGHT = 0;
const WATCH_PORT = 1;
const WATCH_GROUP = 2;

const EXPERIMENTER = 0xffff;
/** Vendor number that Open vSwitch uses for group properties. */
const NETRONOME = 0x154d;
const SELECTION_METHOD = 1;
const METHOD_NAME_BYTES = 16;
const utf8 = new TextEncoder();

/**
 * Appends one message, with transaction id 0.
 *
 * Source: OpenFlow 1.5.1 `ofp_group_mod` (u16 command, u8 type, 1 zero, u32 group, u16 length of buckets, 2 zero, u32 bucket, buckets,
 * properties).
 *
 * @throws SeineError `INVARIANT` if a number does not fit or the message exceeds 64 KiB: insert further buckets separately then
 */
export function writeGroupMod(w: ByteWriter, mod: GroupMod, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.groupMod, version);
  writeGroupModBody(w, mod, version);
  endMessage(w, start);
}

/** Appends the part of a group-mod after the header. */
export function writeGroupModBody(w: ByteWriter, mod: GroupMod, version: Version): void {
  if (version === OPENFLOW_13) writeGroupModIn13(w, mod);
  else writeGroupModIn15(w, mod);
}

/** Source: OpenFlow 1.3.5 `ofp_group_mod` (u16 command, u8 type, 1 zero, u32 group, buckets). */
function writeGroupModIn13(w: ByteWriter, mod: GroupMod): void {
  if (mod.place !== undefined || mod.selection !== undefined)
    throw new SeineError('INVARIANT', 'OpenFlow 1.3 has no selection methods and no numbers of buckets');
  w.u16(groupCommands[mod.command]).u8(groupTypes.indexOf(mod.type)).u8(0).u32(mod.id);
  for (const bucket of mod.buckets) writeBucketIn13(w, bucket, mod.type);
}

function writeGroupModIn15(w: ByteWriter, mod: GroupMod): void {
  w.u16(groupCommands[mod.command]).u8(groupTypes.indexOf(mod.type)).u8(0).u32(mod.id);
  const lengthAt = w.length;
  w.u16(0)
    .u16(0)
    .u32(mod.place ?? bucketPlace.all);
  writeGroupBody(w, mod, lengthAt);
}

/** Appends one entry of a group description reply. */
export function writeGroupDescription(w: ByteWriter, group: Group, version: Version = OPENFLOW_15): void {
  const start = w.length;
  w.u16(0).u8(groupTypes.indexOf(group.type)).u8(0).u32(group.id);
  if (version === OPENFLOW_13) for (const bucket of group.buckets) writeBucketIn13(w, bucket, group.type);
  else writeGroupBody(w.u16(0).zeros(6), group, start + 8);
  w.patchU16(start, w.length - start);
}

function writeGroupBody(w: ByteWriter, group: Group, lengthAt: number): void {
  const start = w.length;
  for (const bucket of group.buckets) writeBucket(w, bucket);
  w.patchU16(lengthAt, w.length - start);
  if (group.selection !== undefined) writeSelection(w, group.selection);
}

/** Source: OpenFlow 1.5.1 `ofp_bucket` (u16 length, u16 length of actions, u32 id, actions, properties). */
export function writeBucket(w: ByteWriter, bucket: Bucket): void {
  const start = w.length;
  w.u16(0).u16(0).u32(bucket.id);
  writeActions(w, bucket.actions);
  w.patchU16(start + 2, w.length - start - 8);
  if (bucket.weight !== undefined) w.u16(WEIGHT).u16(8).u16(bucket.weight).u16(0);
  if (bucket.watchPort !== undefined) w.u16(WATCH_PORT).u16(8).u32(bucket.watchPort);
  if (bucket.watchGroup !== undefined) w.u16(WATCH_GROUP).u16(8).u32(bucket.watchGroup);
  w.patchU16(start, w.length - start);
}

/** Source: Open vSwitch `ntr_group_prop_selection_method`: u32 vendor, u32 type, 4 zero, name in 16 bytes, u64 parameter, OXMs. */
function writeSelection(w: ByteWriter, selection: GroupSelection): void {
  const start = w.length;
  w.u16(EXPERIMENTER).u16(0).u32(NETRONOME).u32(SELECTION_METHOD).zeros(4);
  const name = bytesOf(selection.method);
  if (name.length >= METHOD_NAME_BYTES)
    throw new SeineError('INVARIANT', `selection method ${JSON.stringify(selection.method)} is too long`);
  w.raw(name)
    .zeros(METHOD_NAME_BYTES - name.length)
    .u64(selection.parameter ?? 0n);
  if (selection.fields !== undefined) writeSelectionFields(w, selection.fields);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** Cached name of the last method; nearly all groups have the same. */
let known: { readonly method: string; readonly bytes: Uint8Array } | undefined;

function bytesOf(method: string): Uint8Array {
  if (known?.method !== method) known = { method, bytes: utf8.encode(method) };
  return known.bytes;
}

/** Each field's value is the mask of the bits hashed, in an OXM without a mask; prerequisites do not apply. */
function writeSelectionFields(w: ByteWriter, fields: Match): void {
  for (const [name, value] of Object.entries(fields)) {
    const field = requireField(name);
    writeOxm(w, field, value as AnyValue, undefined); // the row of each name determines the type of its value in `Match`
  }
}

/** @param message a whole group-mod of either version; @throws SeineError `PROTOCOL` if it is malformed */
export function decodeGroupMod(message: Uint8Array): GroupMod {
  const { version } = readHeader(message);
  return readGroupMod(new ByteReader(message, 'group-mod').skip(8), version === OPENFLOW_13 ? OPENFLOW_13 : OPENFLOW_15);
}

/** Reads the part of a group-mod after the header. */
export function readGroupMod(r: ByteReader, version: Version): GroupMod {
  const [command, type, id] = [r.u16(), r.u8(), r.skip(1).u32()];
  const name = (Object.keys(groupCommands) as GroupCommand[]).find((each) => groupCommands[each] === command);
  if (name === undefined) throw new SeineError('PROTOCOL', `group-mod command ${command}`);
  if (version === OPENFLOW_13) return { command: name, id, type: typeNumbered(type), buckets: readBucketsIn13(r) };
  const bucketBytes = r.u16();
  const place = r.skip(2).u32();
  const group = readGroupBody(r, { id, type: typeNumbered(type) }, bucketBytes);
  return { command: name, ...group, ...(place === bucketPlace.all ? {} : { place }) };
}

/** @param group all of them unless one is named; OpenFlow 1.3 always answers with all */
export function writeGroupDescRequest(w: ByteWriter, group: number = ofGroup.all, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.groupDesc, (body) => version === OPENFLOW_15 && body.u32(group).zeros(4), version);
}

/**
 * Decodes the groups in the body of one group description reply.
 *
 * Source: OpenFlow 1.5.1 `ofp_group_desc` (u16 length, u8 type, 1 zero, u32 group, u16 length of buckets, 6 zero, buckets, properties).
 *
 * @throws SeineError `PROTOCOL` if it is malformed
 */
export function decodeGroupDescriptions(body: Uint8Array, version: Version = OPENFLOW_15): Group[] {
  const groups: Group[] = [];
  const r = new ByteReader(body, 'group descriptions');
  while (r.remaining > 0) groups.push(readGroupDescription(r, version));
  return groups;
}

/** Offsets of the buckets in an entry of a group description and in a group-mod. */
const DESCRIPTION_BYTES = 16;
const MOD_BYTES = 24;

/**
 * Calls `visit` for each entry of a group description reply with the group-mod "add" that creates the same group, its buckets and
 * properties copied byte by byte: for callers that compare many groups as bytes. The message is valid until `visit` returns.
 *
 * @throws SeineError `PROTOCOL` if a length does not fit
 */
export function visitGroupMods(body: Uint8Array, visit: (id: number, message: Uint8Array) => void): void {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at < body.length; ) {
    const left = body.length - at;
    const length = left >= DESCRIPTION_BYTES ? view.getUint16(at) : 0;
    if (length < DESCRIPTION_BYTES || length > left || length - DESCRIPTION_BYTES + MOD_BYTES > 0xffff)
      throw new SeineError('PROTOCOL', `group description of ${length} bytes at ${at}, ${left} left`);
    const id = view.getUint32(at + 4);
    const start = beginMessage(modScratch.truncate(0), messageType.groupMod, OPENFLOW_15);
    modScratch
      .u16(groupCommands.add)
      .u8(view.getUint8(at + 2))
      .u8(0)
      .u32(id);
    modScratch
      .u16(view.getUint16(at + 8))
      .u16(0)
      .u32(bucketPlace.all);
    modScratch.raw(body.subarray(at + DESCRIPTION_BYTES, at + length));
    endMessage(modScratch, start);
    visit(id, modScratch.written());
    at += length;
  }
}

export function readGroupDescription(r: ByteReader, version: Version): Group {
  const length = r.peekU16(0);
  if (length < (version === OPENFLOW_13 ? 8 : 16)) throw new SeineError('PROTOCOL', `group description of ${length} bytes`);
  const each = new ByteReader(r.raw(length), 'group description').skip(2);
  const head = { type: typeNumbered(each.u8()), id: each.skip(1).u32() };
  if (version === OPENFLOW_13) return { ...head, buckets: readBucketsIn13(each) };
  const bucketBytes = each.u16();
  return readGroupBody(each.skip(6), head, bucketBytes);
}

function readGroupBody(r: ByteReader, head: Pick<Group, 'id' | 'type'>, bucketBytes: number): Group {
  const buckets: Bucket[] = [];
  const bucketReader = new ByteReader(r.raw(bucketBytes), 'buckets');
  while (bucketReader.remaining > 0) buckets.push(readBucket(bucketReader));
  const selection = readSelection(r);
  return { ...head, ...(selection === undefined ? {} : { selection }), buckets };
}

function typeNumbered(number: number): GroupType {
  const type = groupTypes[number];
  if (type === undefined) throw new SeineError('PROTOCOL', `group type ${number}`);
  return type;
}

function readBucket(buckets: ByteReader): Bucket {
  const length = buckets.peekU16(0);
  if (length < 8) throw new SeineError('PROTOCOL', `bucket of ${length} bytes`);
  const r = new ByteReader(buckets.raw(length), 'bucket').skip(2);
  const actionBytes = r.u16();
  const id = r.u32();
  const actions = readActions(new ByteReader(r.raw(actionBytes), 'bucket actions'));
  const properties: { weight?: number; watchPort?: number; watchGroup?: number } = {};
  eachProperty(r, (type, body) => {
    if (type === WEIGHT) properties.weight = body.u16();
    else if (type === WATCH_PORT) properties.watchPort = body.u32();
    else if (type === WATCH_GROUP) properties.watchGroup = body.u32();
  });
  return { id, ...properties, actions };
}

function readSelection(r: ByteReader): GroupSelection | undefined {
  let selection: GroupSelection | undefined;
  eachProperty(r, (type, body) => {
    if (type !== EXPERIMENTER || body.u32() !== NETRONOME || body.u32() !== SELECTION_METHOD) return;
    const method = textOf(body.skip(4).raw(METHOD_NAME_BYTES));

    const parameter = body.u64();
    const fields = decodeOxmFields(body.raw(body.remaining));
    selection = { method, ...(parameter === 0n ? {} : { parameter }), ...(Object.keys(fields).length === 0 ? {} : { fields }) };
  });
  return selection;
}
