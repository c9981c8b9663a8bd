import { ByteReader } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { errorsIn13, niciraErrors, onfErrors, standardErrors } from './error-names.ts';
import {
  EXPERIMENTER,
  HEADER_BYTES,
  messageTypeName,
  NICIRA,
  ONF,
  OPENFLOW_13,
  OPENFLOW_15,
  readHeader,
  type Version,
} from './protocol.ts';

/** Error message of the switch. */
export interface ErrorMessage {
  readonly type: number;
  /** 0 for errors of a vendor. */
  readonly code: number;
  readonly vendor?: number;
  /** Name as Open vSwitch's tools print it, e.g. `OFPBAC_BAD_OUT_GROUP`; `error TYPE code CODE` if it has no name. */
  readonly name: string;
  /** Start of the failed message, at least 64 bytes of it, or text for a failed hello. */
  readonly data: Uint8Array;
}

/**
 * Source: OpenFlow 1.5.1 `ofp_error_msg` (u16 type, u16 code, data) and `ofp_error_experimenter_msg` (u16 0xffff, u16 type,
 * u32 vendor, data).
 *
 * @param message a whole error message; @throws SeineError `PROTOCOL` if it is too short
 */
export function decodeError(message: Uint8Array): ErrorMessage {
  const r = new ByteReader(message, 'error message').skip(HEADER_BYTES);
  const { version } = readHeader(message);
  return errorOf({ type: r.u16(), code: r.u16(), data: r.raw(r.remaining) }, version === OPENFLOW_13 ? OPENFLOW_13 : OPENFLOW_15);
}

/** Converts the body of an error message. */
export function errorOf({ type, code, data }: Pick<ErrorMessage, 'type' | 'code' | 'data'>, version: Version): ErrorMessage {
  if (type !== EXPERIMENTER) {
    const own = version === OPENFLOW_13 ? errorsIn13[type]?.[code] : undefined;
    return { type, code, name: own ?? standardErrors[type]?.[code] ?? `error ${type} code ${code}`, data };
  }
  const r = new ByteReader(data, 'error message');
  const vendor = r.u32();
  const known = vendor === NICIRA ? niciraErrors[code] : vendor === ONF ? onfErrors[code] : undefined;
  return { type: code, code: 0, vendor, name: known ?? `error ${code} of vendor 0x${vendor.toString(16)}`, data: r.raw(r.remaining) };
}

/** SeineError for a request that the switch understood and refused. */
export function refusal(error: ErrorMessage, doing: string, context: Readonly<Record<string, unknown>> = {}): SeineError {
  const failed = error.data.length >= HEADER_BYTES ? readHeader(error.data) : undefined;
  const about = failed === undefined ? {} : { failed: messageTypeName(failed.type) ?? failed.type };
  return new SeineError('REFUSED', `${doing}: ${error.name}`, { context: { error: error.name, ...about, ...context } });
}
