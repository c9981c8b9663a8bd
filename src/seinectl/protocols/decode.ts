import type { Readable } from 'node:stream';
import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeMessage, type Message } from '../../openflow/message.ts';
import { messageToJson } from '../../openflow/text/message-json.ts';
import { printMessage } from '../../openflow/text/message-text.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { linesOf } from '../lines.ts';
import type { Terminal } from '../terminal.ts';

const HEADER_BYTES = 8;

export interface DecodeOptions {
  readonly json?: true;
}

/** `seinectl wire decode`: one answer per line, also for a line that is not a message. @returns 1 if there was such a line */
export async function decode(hex: readonly string[], options: DecodeOptions, terminal: Terminal, stdin: Readable): Promise<number> {
  const given = hex.join(' ');
  const lines = given === '' || given === '-' ? linesOf(stdin, 'standard input') : [given];
  let failed = false;
  for await (const line of lines) {
    const answer = answerTo(line, options);
    failed ||= answer.failed;
    terminal.line(answer.text);
  }
  return failed ? exitCodes.different : exitCodes.ok;
}

interface DecodeResult {
  readonly text: string;
  readonly failed: boolean;
}

function answerTo(line: string, { json }: DecodeOptions): DecodeResult {
  const texts: string[] = [];
  let failed = false;
  try {
    for (const bytes of messagesIn(bytesOf(line))) texts.push(oneText(decodeMessage(bytes), json === true));
  } catch (thrown) {
    if (!(thrown instanceof SeineError) || thrown.code === 'INVARIANT') throw thrown;
    failed = true;
    texts.push(errorText(thrown, json === true));
  }
  if (json) return { text: texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(',')}]`, failed };
  return { text: texts.join('; '), failed };
}

function oneText(message: Message, json: boolean): string {
  return json ? JSON.stringify(messageToJson(message)) : safeLine(printMessage(message));
}

function errorText(error: SeineError, json: boolean): string {
  const message = error.message.replace(/^\[\w+\] /, '');
  return json ? JSON.stringify({ error: error.code, message }) : safeLine(`error: ${error.code}: ${message}`);
}

/** Parses hexadecimal digits with the separators of dumps: blanks, colons, `0x`. */
function bytesOf(text: string): Uint8Array {
  const digits = text.replace(/0x/gi, '').replace(/[\s:,]+/g, '');
  const wrong = /[^0-9a-f]/i.exec(digits);
  if (wrong !== null) throw new SeineError('INVALID_INPUT', `${JSON.stringify(wrong[0])} is not a hexadecimal digit`);
  if (digits.length % 2 === 1) throw new SeineError('INVALID_INPUT', `${digits.length} hexadecimal digits are not whole bytes`);
  return Uint8Array.from(Buffer.from(digits, 'hex'));
}

/** Splits consecutive messages. @throws SeineError `PROTOCOL` for an invalid one */
function* messagesIn(bytes: Uint8Array): Generator<Uint8Array> {
  if (bytes.length === 0) throw new SeineError('INVALID_INPUT', 'no bytes');
  for (let at = 0; at < bytes.length; ) {
    const length = (bytes[at + 2] ?? 0) * 256 + (bytes[at + 3] ?? 0);
    const left = bytes.length - at;
    if (left < HEADER_BYTES || length < HEADER_BYTES || length > left)
      throw new SeineError('PROTOCOL', `message at byte ${at} declares ${length} bytes, ${left} are left`);
    yield bytes.subarray(at, at + length);
    at += length;
  }
}
