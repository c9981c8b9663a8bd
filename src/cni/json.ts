import { type CniCode, CniError, cniCodes } from './errors.ts';
import { hasOwnKey } from './own-key.ts';

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** Result of JSON.parse: a key called `__proto__` is an own property like any other. Read it through the functions below only. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

const depthMax = 64;

/**
 * @param what subject, for the error
 * @throws CniError 6 if `text` is not JSON, nested deeper than 64 levels, or not an object. A bare `null` counts as an empty object, as it
 *   does for the reference plugins.
 */
export function parseObject(text: string, what: string): JsonObject {
  if (depthOf(text) > depthMax) throw new CniError(cniCodes.undecodable, `${what}: nested deeper than ${depthMax} levels`);
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (thrown) {
    throw new CniError(cniCodes.undecodable, `${what}: not JSON`, thrown instanceof Error ? thrown.message : String(thrown));
  }
  if (value === null) return {};
  if (!isObject(value)) throw new CniError(cniCodes.undecodable, `${what}: ${show(value)} is not an object`);
  return value;
}

/**
 * Returns the deepest nesting of brackets outside strings. Counted before parsing, so that the input does not determine the recursion depth
 * of the parser.
 */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (inString) {
      if (char === '\\') at++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '{' || char === '[') deepest = Math.max(deepest, ++depth);
    else if (char === '}' || char === ']') depth--;
  }
  return deepest;
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the own property `key`, so that `constructor` or `toString` are absent like any other key. `null` counts as absent. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  return hasOwnKey(object, key) ? (object[key] ?? undefined) : undefined;
}

/** Like `member`, but ignoring the key's case: runtimes written in Go send `HostPort` as well as `hostPort`. An exact match wins. */
export function memberAnyCase(object: JsonObject, key: string): JsonValue | undefined {
  const exact = member(object, key);
  if (exact !== undefined) return exact;
  const other = Object.keys(object).find((candidate) => candidate.toLowerCase() === key.toLowerCase());
  return other === undefined ? undefined : member(object, other);
}

/** Formats a value for error messages: JSON, cut at 100 characters. */
export function show(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}

/** @throws CniError `code` (default 7), naming `path` and the value */
export function asString(value: JsonValue | undefined, path: string, code: CniCode = cniCodes.invalidConfig): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  throw new CniError(code, `${path}: ${show(value)} is not a string`);
}

/** @throws CniError 7 */
export function asInteger(value: JsonValue | undefined, path: string): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw new CniError(cniCodes.invalidConfig, `${path}: ${show(value)} is not an integer`);
}

/** @throws CniError 7 */
export function asObject(value: JsonValue | undefined, path: string): JsonObject | undefined {
  if (value === undefined || isObject(value)) return value;
  throw new CniError(cniCodes.invalidConfig, `${path}: ${show(value)} is not an object`);
}

/** An absent list is an empty one. @throws CniError 7 */
export function asList(value: JsonValue | undefined, path: string): readonly JsonValue[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value as readonly JsonValue[];
  throw new CniError(cniCodes.invalidConfig, `${path}: ${show(value)} is not a list`);
}

/** @throws CniError 7 */
export function asStrings(value: JsonValue | undefined, path: string): readonly string[] {
  return asList(value, path).map((entry, at) => {
    if (typeof entry === 'string') return entry;
    throw new CniError(cniCodes.invalidConfig, `${path}[${at}]: ${show(entry)} is not a string`);
  });
}
