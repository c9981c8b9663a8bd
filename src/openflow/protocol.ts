import type { ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';

/** Version numbers in message headers: OpenFlow 1.3 and 1.5. */
export const OPENFLOW_13 = 4;
export const OPENFLOW_15 = 6;

/** Supported versions. Functions without a version argument use 1.5. */
export type Version = typeof OPENFLOW_13 | typeof OPENFLOW_15;

export const versionNames: Readonly<Record<Version, string>> = { [OPENFLOW_13]: 'OpenFlow13', [OPENFLOW_15]: 'OpenFlow15' };

export function isVersion(number: number): number is Version {
  return number === OPENFLOW_13 || number === OPENFLOW_15;
}

/** Source: OpenFlow 1.5.1 `ofp_type`. */
export const messageType = {
  hello: 0,
  error: 1,
  echoRequest: 2,
  echoReply: 3,
  experimenter: 4,
  featuresRequest: 5,
  featuresReply: 6,
  getConfigRequest: 7,
  getConfigReply: 8,
  setConfig: 9,
  packetIn: 10,
  flowRemoved: 11,
  portStatus: 12,
  packetOut: 13,
  flowMod: 14,
  groupMod: 15,
  portMod: 16,
  tableMod: 17,
  multipartRequest: 18,
  multipartReply: 19,
  barrierRequest: 20,
  barrierReply: 21,
  queueConfigRequest: 22,
  queueConfigReply: 23,
  roleRequest: 24,
  roleReply: 25,
  getAsyncRequest: 26,
  getAsyncReply: 27,
  setAsync: 28,
  meterMod: 29,
  roleStatus: 30,
  tableStatus: 31,
  requestForward: 32,
  bundleControl: 33,
  bundleAdd: 34,
  controllerStatus: 35,
} as const;

export type MessageTypeName = keyof typeof messageType;

const typeNames = new Map<number, MessageTypeName>(
  (Object.entries(messageType) as [MessageTypeName, number][]).map(([name, type]) => [type, name]),
);

export function messageTypeName(type: number): MessageTypeName | undefined {
  return typeNames.get(type);
}

/** Reserved ports. Source: OpenFlow 1.5.1 `ofp_port_no`. */
export const ofPort = {
  unset: 0xffff_fff7,
  inPort: 0xffff_fff8,
  table: 0xffff_fff9,
  normal: 0xffff_fffa,
  flood: 0xffff_fffb,
  all: 0xffff_fffc,
  controller: 0xffff_fffd,
  local: 0xffff_fffe,
  any: 0xffff_ffff,
} as const;

/** Source: OpenFlow 1.5.1 `ofp_group`. */
export const ofGroup = { all: 0xffff_fffc, any: 0xffff_ffff } as const;

/** Every table. Source: OpenFlow 1.5.1 `ofp_table`. */
export const ALL_TABLES = 0xff;

export const NO_BUFFER = 0xffff_ffff;

export const HEADER_BYTES = 8;

/** Vendor number of Open vSwitch in experimenter messages, actions and fields. */
export const NICIRA = 0x2320;
/** Vendor number of the Open Networking Foundation: extensions of OpenFlow 1.3 that later versions include. */
export const ONF = 0x4f4e_4600;

/** Type that is followed by a vendor number and a subtype, in actions, properties and errors. */
export const EXPERIMENTER = 0xffff;

const maxMessageBytes = 0xffff;

/** Header of a message. Source: OpenFlow 1.5.1 `ofp_header` (u8 version, u8 type, u16 length, u32 xid). */
export interface Header {
  readonly version: number;
  readonly type: number;
  readonly length: number;
  readonly xid: number;
}

/** @param bytes at least the 8 bytes of a header */
export function readHeader(bytes: Uint8Array): Header {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { version: view.getUint8(0), type: view.getUint8(1), length: view.getUint16(2), xid: view.getUint32(4) };
}

/** Begins a message with transaction id 0 (the connection sets it). @returns its offset, for `endMessage` */
export function beginMessage(w: ByteWriter, type: number, version: Version = OPENFLOW_15): number {
  const start = w.length;
  w.u8(version).u8(type).u16(0).u32(0);
  return start;
}

/** @throws SeineError `INVARIANT` if the message is longer than its length field allows */
export function endMessage(w: ByteWriter, start: number): void {
  const length = w.length - start;
  if (length > maxMessageBytes) throw new SeineError('INVARIANT', `OpenFlow message of ${length} bytes, at most ${maxMessageBytes} fit`);
  w.patchU16(start + 2, length);
}

/** Begins a Nicira message. Source: Open vSwitch `nicira_header`: u32 vendor, u32 subtype. */
export function beginNicira(w: ByteWriter, subtype: number, version: Version = OPENFLOW_15): number {
  const start = beginMessage(w, messageType.experimenter, version);
  w.u32(NICIRA).u32(subtype);
  return start;
}

/** Overwrites the transaction id of a message. */
export function setXid(message: Uint8Array, xid: number): void {
  new DataView(message.buffer, message.byteOffset, message.byteLength).setUint32(4, xid);
}
