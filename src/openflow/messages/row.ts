import type { Layout } from '../layout.ts';
import { ONF, OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';

/** How a message is told apart from the others. */
export type WirePlace = (
  | { readonly type: number }
  /** An experimenter message. */
  | { readonly vendor: number; readonly subtype: number }
  | { readonly multipart: number; readonly reply: boolean }
  /** A multipart message of an experimenter. */
  | { readonly multipartVendor: number; readonly subtype: number; readonly reply: boolean }
) & {
  /** Absent: in both. */
  readonly only?: Version;
};

/** One row a message. */
export interface MessageRow<B> {
  /** What Open vSwitch's tools call it. */
  readonly name: string;
  /** In 1.3, where that is another. */
  readonly nameIn13?: string;
  readonly wire: readonly [WirePlace, ...WirePlace[]];
  /** What follows the header, or the header of a multipart or experimenter message. */
  readonly layout: Layout<B>;
  /** Where the layout is written down. */
  readonly source: string;
}

/** Keeps the type of each body. */
export function row<B>(given: MessageRow<B>): MessageRow<B> {
  return given;
}

/** A multipart request or reply of this type, in both versions. */
export function part(multipart: number, kind: 'request' | 'reply'): WirePlace {
  return { multipart, reply: kind === 'reply' };
}

export const only13 = { only: OPENFLOW_13 } as const;
export const only15 = { only: OPENFLOW_15 } as const;

/** A message of OpenFlow 1.4 and 1.5 that the Open Networking Foundation brought to 1.3 as an extension. */
export function alsoIn13(type: number, subtype: number): readonly [WirePlace, WirePlace] {
  return [
    { type, ...only15 },
    { vendor: ONF, subtype, ...only13 },
  ];
}
