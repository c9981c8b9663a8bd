import { type ObjectIdentity, objectKey } from '../resource.ts';

/*
 * Servers write an object's identity before its content, and of tens of thousands of objects in a first list most are known in the same
 * version: these need not be parsed. Servers write without spaces; an object with a space, or any other deviation, is parsed.
 */

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Bytes before the object. */
const heads = {
  /** Element of a list. */
  object: bytesOf(''),
  /** Event of a watch for a present object. */
  added: bytesOf('{"type":"ADDED","object":'),
} as const;

/** Members that may precede the metadata. */
const kinds = ['"kind":"', '"apiVersion":"'].map(bytesOf);
const metadata = bytesOf('"metadata":{');
const members = { name: bytesOf('name'), namespace: bytesOf('namespace'), version: bytesOf('resourceVersion') } as const;

const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COLON, COMMA, SPACE] = Array.from('"\\{}[]:, ', (each) =>
  each.charCodeAt(0),
) as [number, number, number, number, number, number, number, number, number];

/** Offset of something missing. */
const nowhere = -1;

/**
 * Returns the same as `identityIn`, only from the object's first bytes.
 *
 * @param bytes of one whole JSON object
 * @returns undefined if the part up to the end of the metadata differs from the form that servers write: then the object has to be parsed
 */
export function identityAhead(bytes: Buffer, form: keyof typeof heads): ObjectIdentity | undefined {
  const head = heads[form];
  if (!standsAt(bytes, 0, head) || bytes[head.length] !== OPEN) return undefined;
  const from = metadataFrom(bytes, head.length + 1);
  return from === nowhere ? undefined : identityFrom(bytes, from);
}

/** @returns the offset of the metadata's first member */
function metadataFrom(bytes: Buffer, from: number): number {
  let at = from;
  for (let kind = kinds.find((each) => standsAt(bytes, at, each)); kind; kind = kinds.find((each) => standsAt(bytes, at, each))) {
    const end = endOfText(bytes, at + kind.length);
    if (end === nowhere || bytes[end] !== COMMA) return nowhere;
    at = end + 1;
  }
  return standsAt(bytes, at, metadata) ? at + metadata.length : nowhere;
}

/** @param from offset of the metadata's first member */
function identityFrom(bytes: Buffer, from: number): ObjectIdentity | undefined {
  let [name, namespace, version] = ['', '', undefined as string | undefined];
  let at = from;
  while (bytes[at] === QUOTE) {
    const nameAt = at + 1;
    const nameEnd = endOfText(bytes, nameAt) - 1;
    if (nameEnd < nameAt || bytes[nameEnd + 1] !== COLON) return undefined;
    const valueAt = nameEnd + 2;
    const member = memberAt(bytes, nameAt, nameEnd - nameAt);
    at = member === undefined ? endOfValue(bytes, valueAt) : bytes[valueAt] === QUOTE ? endOfText(bytes, valueAt + 1) : nowhere;
    if (at === nowhere) return undefined;
    if (member === 'name') name = bytes.toString('utf8', valueAt + 1, at - 1);
    else if (member === 'namespace') namespace = bytes.toString('utf8', valueAt + 1, at - 1);
    else if (member === 'version') version = bytes.toString('utf8', valueAt + 1, at - 1);
    if (bytes[at] === CLOSE) return name === '' || version === undefined ? undefined : { key: objectKey(namespace, name), version };
    if (bytes[at] !== COMMA) return undefined;
    at++;
  }
  return undefined;
}

function memberAt(bytes: Buffer, at: number, length: number): keyof typeof members | undefined {
  if (length === members.name.length && standsAt(bytes, at, members.name)) return 'name';
  if (length === members.namespace.length && standsAt(bytes, at, members.namespace)) return 'namespace';
  return length === members.version.length && standsAt(bytes, at, members.version) ? 'version' : undefined;
}

function standsAt(bytes: Buffer, at: number, what: Buffer): boolean {
  for (let index = 0; index < what.length; index++) if (bytes[at + index] !== what[index]) return false;
  return true;
}

/**
 * @param from offset after the opening quote @returns the offset after the closing one; `nowhere` for strings with escapes, or invalid JSON
 */
function endOfText(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH || byte < SPACE) return nowhere;
  }
  return nowhere;
}

/** Skips a value by counting brackets. @returns the offset of the comma or the brace that follows it */
function endOfValue(bytes: Buffer, from: number): number {
  let [depth, inString] = [0, false];
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (inString) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN || byte === OPEN_LIST) depth++;
    else if (depth > 0) {
      if (byte === CLOSE || byte === CLOSE_LIST) depth--;
    } else if (byte === COMMA || byte === CLOSE) return at;
  }
  return nowhere;
}
