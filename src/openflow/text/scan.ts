import { SeineError } from '../../base/errors/seine-error.ts';

/** Maximum length of the text of one flow or group, in UTF-16 units. */
const maxTextLength = 1 << 20;

/** `context.token` is the invalid part of the text, `context.what` the reason. */
export function badText(what: string, text: string): SeineError {
  const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  return new SeineError('INVALID_INPUT', `${what}: ${JSON.stringify(shown)}`, { context: { what, token: shown } });
}

/**
 * Splits at top-level separators; separators inside parentheses and brackets are ignored. Empty parts are omitted.
 *
 * @throws SeineError `INVALID_INPUT` if parentheses do not match or the text is too long
 */
export function splitTop(text: string, separators: string): string[] {
  if (text.length > maxTextLength) throw badText('text too long', text);
  const parts: string[] = [];
  let start = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === '(' || char === '[') depth++;
    else if ((char === ')' || char === ']') && --depth < 0) throw badText('parenthesis too many', text);
    else if (depth === 0 && separators.includes(char)) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  if (depth !== 0) throw badText('parenthesis not closed', text);
  parts.push(text.slice(start));
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

/** Splits at the first occurrence; `after` is undefined if there is none. */
export function cutAt(text: string, separator: string): { readonly before: string; readonly after: string | undefined } {
  const at = text.indexOf(separator);
  return at < 0 ? { before: text, after: undefined } : { before: text.slice(0, at), after: text.slice(at + separator.length) };
}

/** Parses `name(inside)`; `undefined` if the text has another form. */
export function callOf(text: string): { readonly name: string; readonly inside: string } | undefined {
  const match = /^([a-z_0-9]+)\s*\((.*)\)$/s.exec(text);
  return match === null ? undefined : { name: match[1] ?? '', inside: match[2] ?? '' };
}

/** Parses a non-negative number, decimal or hexadecimal, up to `max`. */
export function parseNumber(text: string, max: number, what: string): number {
  const value = /^(0x[0-9a-f]{1,14}|\d{1,16})$/i.test(text) ? Number(text) : Number.NaN;
  if (!(value <= max)) throw badText(`${what} is not a number up to ${max}`, text);
  return value;
}

export function parseBigint(text: string, bits: number, what: string): bigint {
  if (!/^(0x[0-9a-f]{1,64}|\d{1,40})$/i.test(text)) throw badText(`${what} is not a number`, text);
  const value = BigInt(text);
  if (value >> BigInt(bits) !== 0n) throw badText(`${what} has more than ${bits} bits`, text);
  return value;
}

/** Parses bytes like `01.02.ff`, the form of userdata and notes. */
export function parseBytes(text: string, what: string): Uint8Array {
  if (!/^([0-9a-f]{1,2}(\.[0-9a-f]{1,2})*\.?)?$/i.test(text)) throw badText(`${what} is not a list of bytes`, text);
  return Uint8Array.from(
    text.split('.').filter((byte) => byte !== ''),
    (byte) => Number.parseInt(byte, 16),
  );
}
