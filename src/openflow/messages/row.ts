import type { Layout } from '../layout.ts';
import { ONF, OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';

/** Identification of a message on the wire. */
export type WirePlace = (
  | { readonly type: number }
  /** Experimenter message. */
  | { readonly vendor: number; readonly subtype: number }
  | { readonly multipart: number; readonly reply: boolean }
  /** Multipart message of an experimenter. */
  | { readonly multipartVendor: number; readonly subtype: number; readonly reply: boolean }
) & {
  /** Absent: both versions. */
  readonly only?: Version;
};

/** One row per message. */
export interface MessageRow<B> {
  /** Name in Open vSwitch's tools. */
  readonly name: string;
  /** Name in 1.3, if it differs. */
  readonly nameIn13?: string;
  readonly wire: readonly [WirePlace, ...WirePlace[]];
  /** Layout after the header, or after the header of a multipart or experimenter message. */
  readonly layout: Layout<B>;
  /** Reference to the definition of the layout. */
  readonly source: string;
}

/** Keeps the type of each body. */
export function row<B>(given: MessageRow<B>): MessageRow<B> {
  return given;
}

/** Multipart request or reply of this type, in both versions. */
export function part(multipart: number, kind: 'request' | 'reply'): WirePlace {
  return { multipart, reply: kind === 'reply' };
}

export const only13 = { only: OPENFLOW_13 } as const;
export const only15 = { only: OPENFLOW_15 } as const;

/** Message of OpenFlow 1.4 and 1.5 that the Open Networking Foundation defined for 1.3 as an extension. */
export function alsoIn13(type: number, subtype: number): readonly [WirePlace, WirePlace] {
  return [
    { type, ...only15 },
    { vendor: ONF, subtype, ...only13 },
  ];
}
