import { SeineError } from '../../../base/errors/seine-error.ts';

const headersMax = 32;

/**
 * Reads headers, one `Name: value` a line; empty lines and those that begin with `#` are left out. An error names the line, never its
 * value, which is usually a secret. Pure.
 *
 * @throws SeineError `UNAVAILABLE`: the file may be replaced
 */
export function readHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [index, line] of text.split('\n').entries()) {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) continue;
    // RFC 9110 section 5: a name is a token, a value has no control characters.
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}):[ \t]*([\t\x20-\x7e\x80-\xff]{1,8192})$/.exec(trimmed) ?? [];
    if (name === undefined || value === undefined)
      throw new SeineError('UNAVAILABLE', `flowLog.otlp.headersFile: line ${index + 1} is not "Name: value"`);
    headers[name] = value;
  }
  if (Object.keys(headers).length > headersMax)
    throw new SeineError('UNAVAILABLE', `flowLog.otlp.headersFile: more than ${headersMax} headers`);
  return headers;
}
