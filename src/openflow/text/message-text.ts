import { SeineError } from '../../base/errors/seine-error.ts';
import type { Message } from '../message.ts';
import { decodeMessage, messageName } from '../message.ts';
import { HEADER_BYTES, OPENFLOW_13, readHeader, type Version } from '../protocol.ts';
import { changePrinters } from './change-text.ts';
import { controlPrinters } from './control-text.ts';
import type { MessageContext, MessagePrinters } from './message-printers.ts';
import { plainText } from './plain-text.ts';
import { statisticsPrinters } from './statistics-text.ts';
import { hexText, type TextNames } from './value-text.ts';

const printers: MessagePrinters = { ...controlPrinters, ...changePrinters, ...statisticsPrinters };

const versionWords: Readonly<Record<Version, string>> = { 4: 'OF1.3', 6: 'OF1.5' };

/** Maximum depth of messages inside messages; deeper ones are shown as bytes. */
const maxDepth = 4;

/**
 * Prints one message as one line, in the words of `ovs-ofctl ofp-print` (which prints some of them on several lines).
 *
 * @throws SeineError `PROTOCOL` if a match or instructions in it are malformed
 */
export function printMessage(message: Message, names: TextNames = {}): string {
  return printAt(message, names, 0);
}

function printAt(message: Message, names: TextNames, depth: number): string {
  if (message.kind === 'unknown')
    return `unknown message (version ${message.version}) (xid=0x${message.xid.toString(16)}): ${hexText(message.bytes, '')}`;
  const { kind, version, xid } = message;
  const context: MessageContext = { names, version, nested: (bytes) => printNested(bytes, names, depth + 1) };
  const print = printers[kind] as ((body: unknown, context: MessageContext) => string) | undefined; // the printer of the body's kind
  const body = [message.more ? 'flags=[more]' : '', print === undefined ? plainText(message.body, names) : print(message.body, context)];
  const head = `${messageName(kind, version)} (${versionWords[version]}) (xid=0x${xid.toString(16)}):`;
  return [head, ...body].filter((part) => part !== '').join(' ');
}

/** Errors carry the start of the refused message, often not all of it. */
function printNested(bytes: Uint8Array, names: TextNames, depth: number): string {
  if (depth > maxDepth || bytes.length < HEADER_BYTES) return hexText(bytes, '');
  try {
    return printAt(decodeMessage(bytes), names, depth);
  } catch (thrown) {
    if (!(thrown instanceof SeineError)) throw thrown;
    const { type, length, version } = readHeader(bytes);
    const cut = bytes.length < length ? `${bytes.length} of ${length} bytes of ` : '';
    return `(${cut}a message of type ${type} in OpenFlow ${version === OPENFLOW_13 ? '1.3' : version}: ${hexText(bytes, '')})`;
  }
}
