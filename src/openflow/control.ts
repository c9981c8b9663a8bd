import type { ByteWriter } from '../base/bytes/bytes.ts';
import { ByteReader } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { multipartType, writeMultipartRequest } from './multipart.ts';
import { textOf } from './properties.ts';
import { beginMessage, beginNicira, endMessage, HEADER_BYTES, messageType, OPENFLOW_13, OPENFLOW_15, type Version } from './protocol.ts';

/** Appends a message that consists of its header. */
export function writeEmpty(
  w: ByteWriter,
  type: 'echoRequest' | 'featuresRequest' | 'getConfigRequest' | 'barrierRequest' | 'getAsyncRequest',
  version: Version = OPENFLOW_15,
): void {
  endMessage(w, beginMessage(w, messageType[type], version));
}

export interface Features {
  readonly datapathId: bigint;
  readonly tables: number;
  /** Bits of `ofp_capabilities`. */
  readonly capabilities: number;
}

/** Source: OpenFlow 1.5.1 `ofp_switch_features` (u64 id, u32 buffers, u8 tables, u8 auxiliary, 2 zero, u32 capabilities, u32 zero). */
export function decodeFeatures(message: Uint8Array): Features {
  const r = new ByteReader(message, 'features reply').skip(HEADER_BYTES);
  const [datapathId, tables] = [r.u64(), r.skip(4).u8()];
  return { datapathId, tables, capabilities: r.skip(3).u32() };
}

/**
 * Treatment of fragments, and number of bytes of a packet that are sent to the controller.
 *
 * A connection to a bridge's management socket gets no unsolicited messages until it has sent a `missSendLength` that is not 0, or an
 * `AsyncConfig` (ovs-ofctl(8) "monitor").
 */
export interface SwitchConfig {
  /** 0 normal, 1 drop, 2 reassemble, 3 match on `ip_frag` (Open vSwitch). */
  readonly fragments: number;
  readonly missSendLength: number;
}

/** Source: OpenFlow 1.5.1 `ofp_switch_config` (u16 flags, u16 length). */
export function writeSetConfig(w: ByteWriter, config: SwitchConfig, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.setConfig, version);
  endMessage(w.u16(config.fragments).u16(config.missSendLength), start);
}

export function decodeConfig(message: Uint8Array): SwitchConfig {
  const r = new ByteReader(message, 'config reply').skip(HEADER_BYTES);
  return { fragments: r.u16(), missSendLength: r.u16() };
}

/** Source: OpenFlow 1.5.1 `ofp_controller_role`. */
export const roles = ['noChange', 'equal', 'primary', 'secondary'] as const;
export type Role = (typeof roles)[number];

/** Source: OpenFlow 1.5.1 `ofp_role_request` (u32 role, u16 short id, 2 zero, u64 generation); 1.3 has zeros for the short id. */
export function writeRoleRequest(w: ByteWriter, role: Role, generation: bigint, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.roleRequest, version);
  const shortId = version === OPENFLOW_13 ? 0 : NO_SHORT_ID;
  endMessage(w.u32(roles.indexOf(role)).u16(shortId).zeros(2).u64(generation), start);
}

const NO_SHORT_ID = 0xffff;

export function decodeRole(message: Uint8Array): { readonly role: Role; readonly generation: bigint } {
  const r = new ByteReader(message, 'role reply').skip(HEADER_BYTES);
  const number = r.u32();
  const role = roles[number];
  if (role === undefined) throw new SeineError('PROTOCOL', `controller role ${number}`);
  return { role, generation: r.skip(4).u64() };
}

/** Unsolicited messages that the switch sends to us: for each kind the sum of 2 ** reason. Absent kinds stay unchanged. */
export interface AsyncConfig {
  readonly packetIn?: number;
  readonly portStatus?: number;
  readonly flowRemoved?: number;
}

/** Property types for a controller that is primary or equal; one less is for a secondary. */
const asyncTypes = { packetIn: 1, portStatus: 3, flowRemoved: 5 } as const;

/**
 * Source: OpenFlow 1.5.1 `ofp_async_config`: properties of u16 type, u16 length = 8, u32 mask. OpenFlow 1.3: two u32 masks per kind, of
 * which the second is for a secondary; a kind cannot be left unchanged.
 */
export function writeSetAsync(w: ByteWriter, config: AsyncConfig, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.setAsync, version);
  if (version === OPENFLOW_13) {
    const { packetIn = 0, portStatus = 0, flowRemoved = 0 } = config;
    endMessage(w.u32(packetIn).u32(0).u32(portStatus).u32(0).u32(flowRemoved).u32(0), start);
    return;
  }
  for (const kind of Object.keys(asyncTypes) as (keyof typeof asyncTypes)[]) {
    const mask = config[kind];
    if (mask !== undefined) w.u16(asyncTypes[kind]).u16(8).u32(mask);
  }
  endMessage(w, start);
}

const NXT_SET_PACKET_IN_FORMAT = 16;
const NXT_SET_CONTROLLER_ID = 20;
const NXT_CT_FLUSH_ZONE = 29;

const PACKET_IN_2 = 2;

/** Selects packet-ins with userdata. Source: Open vSwitch `NXT_SET_PACKET_IN_FORMAT` (u32 format). */
export function writeUsePacketIn2(w: ByteWriter, version: Version = OPENFLOW_15): void {
  const start = beginNicira(w, NXT_SET_PACKET_IN_FORMAT, version);
  endMessage(w.u32(PACKET_IN_2), start);
}

/**
 * Sets the controller id, by which `controller` actions reach this connection. Source: Open vSwitch `NXT_SET_CONTROLLER_ID` (6 zero, u16
 * id).
 */
export function writeSetControllerId(w: ByteWriter, id: number, version: Version = OPENFLOW_15): void {
  const start = beginNicira(w, NXT_SET_CONTROLLER_ID, version);
  endMessage(w.zeros(6).u16(id), start);
}

/** Deletes every tracked connection of a zone. Source: Open vSwitch `NXT_CT_FLUSH_ZONE` (6 zero, u16 zone). */
export function writeFlushZone(w: ByteWriter, zone: number, version: Version = OPENFLOW_15): void {
  const start = beginNicira(w, NXT_CT_FLUSH_ZONE, version);
  endMessage(w.zeros(6).u16(zone), start);
}

export interface SwitchDesc {
  readonly manufacturer: string;
  readonly hardware: string;
  /** Version of Open vSwitch. */
  readonly software: string;
  readonly serialNumber: string;
  readonly datapath: string;
}

export function writeDescRequest(w: ByteWriter, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.desc, () => {}, version);
}

/** @param body of a description reply. Source: OpenFlow 1.5.1 `ofp_desc`: texts of 256, 256, 256, 32 and 256 bytes. */
export function decodeDesc(body: Uint8Array): SwitchDesc {
  const r = new ByteReader(body, 'description');
  const [manufacturer, hardware, software] = [textOf(r.raw(256)), textOf(r.raw(256)), textOf(r.raw(256))];
  return { manufacturer, hardware, software, serialNumber: textOf(r.raw(32)), datapath: textOf(r.raw(256)) };
}

export interface TableStats {
  readonly table: number;
  readonly flows: number;
  readonly lookups: bigint;
  readonly matches: bigint;
}

export function writeTableStatsRequest(w: ByteWriter, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.tableStats, () => {}, version);
}

/** @param body of a table statistics reply. Source: OpenFlow 1.5.1 `ofp_table_stats` (u8 table, 3 zero, u32 flows, u64 lookups, u64 matches). */
export function decodeTableStats(body: Uint8Array): TableStats[] {
  const stats: TableStats[] = [];
  const r = new ByteReader(body, 'table statistics');
  while (r.remaining > 0) stats.push({ table: r.u8(), flows: r.skip(3).u32(), lookups: r.u64(), matches: r.u64() });
  return stats;
}
