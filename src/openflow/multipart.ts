import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { beginMessage, endMessage, messageType, OPENFLOW_15, type Version } from './protocol.ts';

/** Source: OpenFlow 1.5.1 `ofp_multipart_type`. */
export const multipartType = {
  desc: 0,
  flowDesc: 1,
  aggregate: 2,
  tableStats: 3,
  portStats: 4,
  queueStats: 5,
  groupStats: 6,
  groupDesc: 7,
  groupFeatures: 8,
  meterStats: 9,
  meterDesc: 10,
  meterFeatures: 11,
  tableFeatures: 12,
  portDesc: 13,
  tableDesc: 14,
  queueDesc: 15,
  flowMonitor: 16,
  flowStats: 17,
  controllerStatus: 18,
  bundleFeatures: 19,
  experimenter: 0xffff,
} as const;

const MORE = 1;

/** Length of the header before the body: header, u16 type, u16 flags, 4 bytes zero. Source: OpenFlow 1.5.1 `ofp_multipart_request`. */
const MULTIPART_HEADER_BYTES = 16;

/** Appends one request; `body` writes the part after its header. */
export function writeMultipartRequest(w: ByteWriter, type: number, body: (w: ByteWriter) => unknown, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.multipartRequest, version);
  w.u16(type).u16(0).u32(0);
  body(w);
  endMessage(w, start);
}

/** One message of an answer that may consist of many. */
export interface MultipartPart {
  readonly type: number;
  readonly last: boolean;
  readonly body: Uint8Array;
}

/** @param message a whole multipart reply; @throws SeineError `PROTOCOL` if it is shorter than its header */
export function decodeMultipart(message: Uint8Array): MultipartPart {
  const r = new ByteReader(message, 'multipart reply').skip(8);
  const [type, flags] = [r.u16(), r.u16()];
  r.skip(4);
  return { type, last: (flags & MORE) === 0, body: message.subarray(MULTIPART_HEADER_BYTES) };
}
