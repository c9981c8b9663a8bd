import type { ByteWriter } from '../base/bytes/bytes.ts';
import { ByteReader } from '../base/bytes/bytes.ts';
import { multipartType, writeMultipartRequest } from './multipart.ts';
import { textOf } from './properties.ts';

/** Description of a switch, for humans. */
interface SwitchDescription {
  readonly manufacturer: string;
  readonly hardware: string;
  /** Version of Open vSwitch. */
  readonly software: string;
}

export function writeDescriptionRequest(w: ByteWriter): void {
  writeMultipartRequest(w, multipartType.desc, () => undefined);
}

/**
 * Source: OpenFlow 1.5.1 `ofp_desc`: texts of 256 bytes each for manufacturer, hardware and software, then a serial number in 32 and a name
 * in 256.
 *
 * @throws SeineError `PROTOCOL` if it is too short
 */
export function decodeDescription(body: Uint8Array): SwitchDescription[] {
  const r = new ByteReader(body, 'switch description');
  return [{ manufacturer: textOf(r.raw(256)), hardware: textOf(r.raw(256)), software: textOf(r.raw(256)) }];
}
