import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import {
  beginMessage,
  endMessage,
  HEADER_BYTES,
  messageType,
  ONF,
  OPENFLOW_13,
  OPENFLOW_15,
  readHeader,
  type Version,
} from './protocol.ts';

/** Source: OpenFlow 1.5.1 `ofp_bundle_ctrl_type`. */
export const bundleControls = [
  'openRequest',
  'openReply',
  'closeRequest',
  'closeReply',
  'commitRequest',
  'commitReply',
  'discardRequest',
  'discardReply',
] as const;
export type BundleControlType = (typeof bundleControls)[number];

/** Source: OpenFlow 1.5.1 `ofp_bundle_flags`. Values are added up. */
export const bundleFlag = { atomic: 1, ordered: 2 } as const;

export interface BundleControl {
  readonly bundle: number;
  readonly type: BundleControlType;
  readonly flags: number;
}

/** Appends one message. Source: OpenFlow 1.5.1 `ofp_bundle_ctrl_msg` (u32 bundle, u16 type, u16 flags). */
export function writeBundleControl(w: ByteWriter, control: BundleControl, version: Version = OPENFLOW_15): void {
  const start = beginBundleMessage(w, 'control', version);
  w.u32(control.bundle).u16(bundleControls.indexOf(control.type)).u16(control.flags);
  endMessage(w, start);
}

/** OpenFlow 1.3 has bundles as an extension of the Open Networking Foundation (EXT-230), with the same bodies. */
const forms = {
  control: { type: messageType.bundleControl, subtype: 2300 },
  add: { type: messageType.bundleAdd, subtype: 2301 },
} as const;

function beginBundleMessage(w: ByteWriter, what: keyof typeof forms, version: Version): number {
  const { type, subtype } = forms[what];
  if (version === OPENFLOW_15) return beginMessage(w, type, version);
  const start = beginMessage(w, messageType.experimenter, version);
  w.u32(ONF).u32(subtype);
  return start;
}

/** Reports whether a message is a bundle control message, in either version. */
export function isBundleControl(message: Uint8Array): boolean {
  const { type, version } = readHeader(message);
  if (version !== OPENFLOW_13) return type === messageType.bundleControl;
  if (type !== messageType.experimenter || message.length < HEADER_BYTES + 8) return false;
  const r = new ByteReader(message, 'experimenter').skip(HEADER_BYTES);
  return r.u32() === ONF && r.u32() === forms.control.subtype;
}

/** @param message a whole bundle control message; @throws SeineError `PROTOCOL` if it is malformed */
export function decodeBundleControl(message: Uint8Array): BundleControl {
  const r = new ByteReader(message, 'bundle control').skip(bodyOffset(message));
  const [bundle, number, flags] = [r.u32(), r.u16(), r.u16()];
  const type = bundleControls[number];
  if (type === undefined) throw new SeineError('PROTOCOL', `bundle control type ${number}`);
  return { bundle, type, flags };
}

function bodyOffset(message: Uint8Array): number {
  return message[1] === messageType.experimenter ? HEADER_BYTES + 8 : HEADER_BYTES;
}

/**
 * Appends one message that adds another one to a bundle. Both carry the transaction id of the inner message.
 *
 * Source: OpenFlow 1.5.1 `ofp_bundle_add_msg` (u32 bundle, 2 zero, u16 flags, message).
 *
 * @throws SeineError `INVARIANT` if both together are longer than 64 KiB
 */
export function writeBundleAdd(
  w: ByteWriter,
  add: { readonly bundle: number; readonly flags: number; readonly xid: number; readonly message: Uint8Array },
  version: Version = OPENFLOW_15,
): void {
  const start = beginBundleMessage(w, 'add', version);
  w.u32(add.bundle).u16(0).u16(add.flags);
  const inner = w.length;
  w.raw(add.message);
  endMessage(w, start);
  w.patchU32(start + 4, add.xid).patchU32(inner + 4, add.xid);
}

/** @param message a whole bundle-add; @returns the message inside */
export function decodeBundleAdd(message: Uint8Array): { readonly bundle: number; readonly flags: number; readonly message: Uint8Array } {
  const r = new ByteReader(message, 'bundle add').skip(bodyOffset(message));
  const [bundle, flags] = [r.u32(), r.skip(2).u16()];
  return { bundle, flags, message: r.raw(r.remaining) };
}
