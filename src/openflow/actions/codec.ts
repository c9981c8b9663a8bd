import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import type { Version } from '../protocol.ts';
import type { Action, ActionOf, KnownAction } from './action.ts';

/** How an action is told apart on the wire: a standard type, or a Nicira subtype. */
export type WireId = { readonly type: number } | { readonly nicira: number };

/** The codec of action lists, handed to the rows of actions that contain actions. */
export interface NestedActions {
  readonly version: Version;
  encode(w: ByteWriter, actions: readonly Action[]): void;
  decode(r: ByteReader): Action[];
}

export interface ActionCodec<A> {
  /** Usually one; where there are several, `choose` says which one carries an action. */
  readonly wire: readonly [WireId, ...WireId[]];
  choose?(action: A, version: Version): number;
  /** The form in OpenFlow 1.3 of a row with one form in 1.5, where that is another one; `decode` sees it as the form after `wire`. */
  readonly wireIn13?: WireId;
  /** Where the layout is written down. */
  readonly source: string;
  /** Writes the body only; the driver writes header, length and padding. */
  encode(w: ByteWriter, action: A, nested: NestedActions): void;
  /**
   * Reads the body, padding included.
   *
   * @param form index into `wire`
   * @returns `undefined` for what the row cannot say; the action is then `unknown`
   */
  decode(r: ByteReader, nested: NestedActions, form: number): A | undefined;
}

export type ActionRows<K extends KnownAction['kind']> = { readonly [P in K]: ActionCodec<ActionOf<P>> };

const firstReserved16 = 0xff00;
const reservedGap = 0xffff_0000;

/** Ports of OpenFlow 1.0 are 16 bits wide; their reserved numbers lie below the same distance from the end. */
export function port16(port: number): number {
  return port >= reservedGap + firstReserved16 ? port - reservedGap : port;
}

export function port32(port: number): number {
  return port >= firstReserved16 ? port + reservedGap : port;
}
