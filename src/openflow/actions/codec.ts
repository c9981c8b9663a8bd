import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import type { Version } from '../protocol.ts';
import type { Action, ActionOf, KnownAction } from './action.ts';

/** Identification of an action on the wire: a standard type, or a Nicira subtype. */
export type WireId = { readonly type: number } | { readonly nicira: number };

/** Codec of action lists, passed to the rows of actions that contain actions. */
export interface NestedActions {
  readonly version: Version;
  encode(w: ByteWriter, actions: readonly Action[]): void;
  decode(r: ByteReader): Action[];
}

export interface ActionCodec<A> {
  /** Usually one; if there are several, `choose` selects the form of an action. */
  readonly wire: readonly [WireId, ...WireId[]];
  choose?(action: A, version: Version): number;
  /** Form in OpenFlow 1.3 of a row that has one form in 1.5, if it differs; `decode` receives it as the form after `wire`. */
  readonly wireIn13?: WireId;
  /** Reference to the definition of the layout. */
  readonly source: string;
  /** Writes the body only; the driver writes header, length and padding. */
  encode(w: ByteWriter, action: A, nested: NestedActions): void;
  /**
   * Reads the body, padding included.
   *
   * @param form index into `wire`
   * @returns `undefined` for a body that the row cannot represent; the action is then `unknown`
   */
  decode(r: ByteReader, nested: NestedActions, form: number): A | undefined;
}

export type ActionRows<K extends KnownAction['kind']> = { readonly [P in K]: ActionCodec<ActionOf<P>> };

const firstReserved16 = 0xff00;
const reservedGap = 0xffff_0000;

/** Converts to the 16-bit ports of OpenFlow 1.0. Reserved numbers have the same distance from the end. */
export function port16(port: number): number {
  return port >= reservedGap + firstReserved16 ? port - reservedGap : port;
}

export function port32(port: number): number {
  return port >= firstReserved16 ? port + reservedGap : port;
}
