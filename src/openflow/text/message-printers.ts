import type { BodyOf, MessageKind } from '../message.ts';
import type { Version } from '../protocol.ts';
import type { TextNames } from './value-text.ts';

/** Context of a printer besides the body. */
export interface MessageContext {
  readonly names: TextNames;
  readonly version: Version;
  /** Prints a message inside the message, which may be truncated. */
  nested(bytes: Uint8Array): string;
}

export type MessagePrinters = { readonly [K in MessageKind]?: (body: BodyOf<K>, context: MessageContext) => string };
