import { ByteReader, ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import type { Layout } from './layout.ts';
import { changeRows } from './messages/change.ts';
import { controlRows } from './messages/control.ts';
import { niciraRows } from './messages/nicira.ts';
import type { MessageRow, WirePlace } from './messages/row.ts';
import { statisticsRows } from './messages/statistics.ts';
import { multipartType } from './multipart.ts';
import { beginMessage, endMessage, HEADER_BYTES, isVersion, messageType, OPENFLOW_13, readHeader, type Version } from './protocol.ts';

/** One row per message. */
export const messageRows = { ...controlRows, ...changeRows, ...statisticsRows, ...niciraRows };

export type MessageKind = keyof typeof messageRows;
export type BodyOf<K extends MessageKind> = (typeof messageRows)[K] extends MessageRow<infer B> ? B : never;

interface Envelope {
  readonly version: Version;
  readonly xid: number;
}

/** Message in OpenFlow 1.3 or 1.5. Bytes in it are views into the bytes that it was read from. */
export type Message =
  | { readonly [K in MessageKind]: Envelope & { readonly kind: K; readonly body: BodyOf<K>; readonly more?: true } }[MessageKind]
  | UnknownMessage;

/** Message without a row, or of an unsupported version: whole. */
export interface UnknownMessage {
  readonly kind: 'unknown';
  readonly version: number;
  readonly xid: number;
  readonly bytes: Uint8Array;
}

type AnyMessageRow = MessageRow<unknown>;

interface MessagePlace {
  readonly kind: MessageKind;
  readonly layout: Layout<unknown>;
}

const MORE = 1;
const places = new Map<string, MessagePlace>();
for (const [kind, row] of Object.entries(messageRows) as [MessageKind, AnyMessageRow][]) {
  for (const wire of row.wire) places.set(keyOf(wire), { kind, layout: row.layout });
}

function keyOf(wire: WirePlace): string {
  if ('type' in wire) return `type ${wire.type}`;
  if ('vendor' in wire) return `vendor ${wire.vendor} ${wire.subtype}`;
  const direction = wire.reply ? 'reply' : 'request';
  return 'multipart' in wire ? `${direction} ${wire.multipart}` : `${direction} ${wire.multipartVendor} ${wire.subtype}`;
}

/**
 * Reads one whole message of any kind.
 *
 * @param bytes exactly one message, as `OpenFlowFramer` returns it
 * @throws SeineError `PROTOCOL` if it is malformed
 */
export function decodeMessage(bytes: Uint8Array): Message {
  if (bytes.length < HEADER_BYTES) throw new SeineError('PROTOCOL', `message of ${bytes.length} bytes`);
  const { version, type, length, xid } = readHeader(bytes);
  if (length !== bytes.length) throw new SeineError('PROTOCOL', `message of ${bytes.length} bytes declares ${length}`);
  const r = new ByteReader(bytes, 'message').skip(HEADER_BYTES);
  if (!isVersion(version)) return { kind: 'unknown', version, xid, bytes };
  const { key, more } = readPlace(r, type);
  const place = places.get(key);
  if (place === undefined || !speaks(place.kind, key, version)) return { kind: 'unknown', version, xid, bytes };
  const body = place.layout.read(r, version);
  if (r.remaining > 0) throw new SeineError('PROTOCOL', `${place.kind}: ${r.remaining} bytes too many`);
  return { kind: place.kind, version, xid, body, ...(more ? { more: true } : {}) } as Message; // the row of the kind read the body
}

/** Returns the key of a message's row, and whether more parts of it follow; the reader is then at the body. */
function readPlace(r: ByteReader, type: number): { readonly key: string; readonly more: boolean } {
  if (type === messageType.experimenter) return { key: `vendor ${r.u32()} ${r.u32()}`, more: false };
  if (type !== messageType.multipartRequest && type !== messageType.multipartReply) return { key: `type ${type}`, more: false };
  const direction = type === messageType.multipartReply ? 'reply' : 'request';
  const [number, flags] = [r.u16(), r.u16()];
  r.skip(4);
  const place = number === multipartType.experimenter ? `${r.u32()} ${r.u32()}` : number;
  return { key: `${direction} ${place}`, more: (flags & MORE) !== 0 };
}

function speaks(kind: MessageKind, key: string, version: Version): boolean {
  const row: AnyMessageRow = messageRows[kind] as AnyMessageRow; // a row of some body
  return row.wire.some((wire) => keyOf(wire) === key && (wire.only === undefined || wire.only === version));
}

/**
 * @param message result of `decodeMessage`, or constructed by the caller
 * @throws SeineError `INVARIANT` if a number does not fit, or the version has no such message
 */
export function encodeMessage(message: Message): Uint8Array {
  if (message.kind === 'unknown') return message.bytes.slice();
  const { kind, version, xid, body, more } = message;
  const row = messageRows[kind] as AnyMessageRow; // its body is of its kind
  const wire = row.wire.find(({ only }) => only === undefined || only === version);
  if (wire === undefined)
    throw new SeineError('INVARIANT', `${kind} is not a message of ${version === OPENFLOW_13 ? 'OpenFlow 1.3' : 'OpenFlow 1.5'}`);
  const w = new ByteWriter(128);
  const start = beginMessage(w, typeOf(wire), version);
  if ('vendor' in wire) w.u32(wire.vendor).u32(wire.subtype);
  if ('reply' in wire)
    w.u16('multipart' in wire ? wire.multipart : multipartType.experimenter)
      .u16(more ? MORE : 0)
      .zeros(4);
  if ('multipartVendor' in wire) w.u32(wire.multipartVendor).u32(wire.subtype);
  row.layout.write(w, body, version);
  endMessage(w, start);
  return w.patchU32(start + 4, xid).finish();
}

function typeOf(wire: WirePlace): number {
  if ('type' in wire) return wire.type;
  if ('vendor' in wire) return messageType.experimenter;
  return wire.reply ? messageType.multipartReply : messageType.multipartRequest;
}

/** Name of a message in Open vSwitch's tools: `OFPT_FLOW_MOD`, `OFPST_FLOW reply`. */
export function messageName(kind: MessageKind, version: Version): string {
  const row = messageRows[kind] as AnyMessageRow; // a row of some body
  const name = version === OPENFLOW_13 ? (row.nameIn13 ?? row.name) : row.name;
  const [wire] = row.wire;
  return 'reply' in wire ? `${name} ${wire.reply ? 'reply' : 'request'}` : name;
}
