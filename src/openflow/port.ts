import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { multipartType, writeMultipartRequest } from './multipart.ts';
import { textOf } from './properties.ts';
import { HEADER_BYTES, OPENFLOW_13, OPENFLOW_15, ofPort, readHeader, type Version } from './protocol.ts';

/** Port of the bridge in OpenFlow. */
export interface Port {
  readonly number: number;
  readonly name: string;
  /** 48-bit Ethernet address. */
  readonly address: number;
  /** Set by the administrator. */
  readonly isDown: boolean;
  /** No carrier. */
  readonly isLinkDown: boolean;
  /** All bits of `ofp_port_config` and `ofp_port_state`. */
  readonly config: number;
  readonly state: number;
}

const CONFIG_DOWN = 1;
const STATE_LINK_DOWN = 1;
const NAME_BYTES = 16;
const PORT_BYTES_13 = 64;

/**
 * Source: OpenFlow 1.5.1 `ofp_port` (u32 number, u16 length, 2 zero, address, 2 zero, name in 16 bytes, u32 config, u32 state, properties).
 * OpenFlow 1.3: no length, and six u32 of features instead of properties.
 *
 * @throws SeineError `PROTOCOL` if the length is wrong
 */
function readPort(ports: ByteReader, version: Version): Port {
  const length = version === OPENFLOW_13 ? PORT_BYTES_13 : ports.peekU16(4);
  if (length < 40) throw new SeineError('PROTOCOL', `port description of ${length} bytes`);
  const r = new ByteReader(ports.raw(length), 'port description');
  const number = r.u32();
  const address = r.skip(4).u48();
  const name = textOf(r.skip(2).raw(NAME_BYTES));
  const [config, state] = [r.u32(), r.u32()];
  return { number, name, address, isDown: (config & CONFIG_DOWN) !== 0, isLinkDown: (state & STATE_LINK_DOWN) !== 0, config, state };
}

/**
 * Requests one port, or all with `ofPort.any`; OpenFlow 1.3 always answers with all. Source: OpenFlow 1.5.1 `ofp_port_multipart_request`.
 */
export function writePortDescRequest(w: ByteWriter, port: number = ofPort.any, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.portDesc, (body) => version === OPENFLOW_15 && body.u32(port).zeros(4), version);
}

/** @param body of a port description reply */
export function decodePorts(body: Uint8Array, version: Version = OPENFLOW_15): Port[] {
  const ports: Port[] = [];
  const r = new ByteReader(body, 'port descriptions');
  while (r.remaining > 0) ports.push(readPort(r, version));
  return ports;
}

/** Source: OpenFlow 1.5.1 `ofp_port_reason`. */
export const portReasons = ['add', 'delete', 'modify'] as const;

export interface PortStatus {
  readonly reason: (typeof portReasons)[number];
  readonly port: Port;
}

/** Source: OpenFlow 1.5.1 `ofp_port_status` (u8 reason, 7 zero, port). @param message a whole port status message */
export function decodePortStatus(message: Uint8Array): PortStatus {
  const r = new ByteReader(message, 'port status').skip(HEADER_BYTES);
  const number = r.u8();
  const reason = portReasons[number];
  if (reason === undefined) throw new SeineError('PROTOCOL', `port status reason ${number}`);
  return { reason, port: readPort(r.skip(7), readHeader(message).version === OPENFLOW_13 ? OPENFLOW_13 : OPENFLOW_15) };
}

const STATS_BYTES_13 = 112;

/** Statistics of a port since it was added. */
export interface PortStats {
  readonly port: number;
  readonly rxPackets: bigint;
  readonly txPackets: bigint;
  readonly rxBytes: bigint;
  readonly txBytes: bigint;
  readonly rxDropped: bigint;
  readonly txDropped: bigint;
  readonly rxErrors: bigint;
  readonly txErrors: bigint;
}

export function writePortStatsRequest(w: ByteWriter, port: number = ofPort.any, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.portStats, (body) => body.u32(port).zeros(4), version);
}

/**
 * @param body of a port statistics reply. Source: OpenFlow 1.5.1 `ofp_port_stats` (u16 length, 2 zero, u32 port, u32 seconds,
 *   u32 nanoseconds, eight u64 counters, properties); OpenFlow 1.3: u32 port, 4 zero, twelve u64 counters, u32 seconds, u32
 *   nanoseconds.
 */
export function decodePortStats(body: Uint8Array, version: Version = OPENFLOW_15): PortStats[] {
  const stats: PortStats[] = [];
  const all = new ByteReader(body, 'port statistics');
  while (all.remaining > 0) {
    const length = version === OPENFLOW_13 ? STATS_BYTES_13 : all.peekU16(0);
    if (length < 80) throw new SeineError('PROTOCOL', `port statistics of ${length} bytes`);
    const r = new ByteReader(all.raw(length), 'port statistics').skip(version === OPENFLOW_13 ? 0 : 4);
    const port = r.u32();
    r.skip(version === OPENFLOW_13 ? 4 : 8);
    stats.push({
      port,
      rxPackets: r.u64(),
      txPackets: r.u64(),
      rxBytes: r.u64(),
      txBytes: r.u64(),
      rxDropped: r.u64(),
      txDropped: r.u64(),
      rxErrors: r.u64(),
      txErrors: r.u64(),
    });
  }
  return stats;
}
