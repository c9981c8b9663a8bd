import { SeineError } from '../base/errors/seine-error.ts';
import type { JsonFrame } from './framer.ts';

/** Value that can be sent. Use `jsonInteger` for a 64-bit integer. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [member: string]: Json };

/** `JSON.rawJSON` of the "JSON.parse source text access" proposal; in Node since 22, in no TypeScript library yet. */
const rawJson: (text: string) => { readonly rawJSON: string } = Reflect.get(JSON, 'rawJSON');

export function jsonInteger(value: bigint): Json {
  const narrow = Number(value);
  return Number.isSafeInteger(narrow) ? narrow : rawJson(String(value));
}

/** Writes a value that `parseJson` returned, with exact wide integers. */
export function writeParsed(value: unknown): string {
  return JSON.stringify(value, (_member, part) => (typeof part === 'bigint' ? rawJson(String(part)) : part));
}

/**
 * Parses one message. Integers that a `number` cannot represent exactly become `bigint`, all others `number`.
 *
 * @throws SeineError `PROTOCOL` if it is not JSON.
 */
export function parseJson(frame: JsonFrame): unknown {
  try {
    return frame.wideNumbers ? JSON.parse(frame.text, keepWideIntegers) : JSON.parse(frame.text);
  } catch (thrown) {
    throw new SeineError('PROTOCOL', `JSON-RPC: message at ${frame.offset} is not JSON`, {
      context: { characters: frame.text.length },
      cause: thrown,
    });
  }
}

/** -(2^63) has 20 characters. No column accepts more, and creating a `bigint` of a million digits would take seconds. */
const widestText = 20;

/** A reviver costs several times the parse itself, so it is used only for messages with a long run of digits. */
function keepWideIntegers(_member: string, value: unknown, source?: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const text = source?.source;
  return text !== undefined && text.length <= widestText && /^-?\d+$/.test(text) ? BigInt(text) : value;
}
