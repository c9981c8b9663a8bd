import { type ObjectIdentity, objectKey } from '../resource.ts';

/*
 * Servers write an object's identity before its content, and of tens of thousands of objects in a first list most are known in the same
 * version: these need not be parsed. Servers write without spaces; an object with a space, or any other deviation, is parsed.
 */

const octetsOf = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Bytes before the object. */
const heads = {
  /** Element of a list. */
  object: octetsOf(''),
  /** Event of a watch for a present object. */
  added: octetsOf('{"type":"ADDED","object":'),
} as const;

/** Members that may precede the metadata. */
const kinds = ['"kind":"', '"apiVersion":"'].map(octetsOf);
const metadata = octetsOf('"metadata":{');
const members = { name: octetsOf('name'), namespace: octetsOf('namespace'), version: octetsOf('resourceVersion') } as const;

const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COLON, COMMA, SPACE] = Array.from('"\\{}[]:, ', (each) =>
  each.charCodeAt(0),
) as [number, number, number, number, number, number, number, number, number];

/** Offset of something missing. */
const nowhere = -1;

/**
 * Returns the same as `identityIn`, only from the object's first bytes.
 *
 * @param octets of one whole JSON object
 * @returns undefined if the part up to the end of the metadata differs from the form that servers write: then the object has to be parsed
 */
export function identityAhead(octets: Buffer, form: keyof typeof heads): ObjectIdentity | undefined {
  const head = heads[form];
  if (!standsAt(octets, 0, head) || octets[head.length] !== OPEN) return undefined;
  const from = metadataFrom(octets, head.length + 1);
  return from === nowhere ? undefined : identityFrom(octets, from);
}

/** @returns the offset of the metadata's first member */
function metadataFrom(octets: Buffer, from: number): number {
  let at = from;
  for (let kind = kinds.find((each) => standsAt(octets, at, each)); kind; kind = kinds.find((each) => standsAt(octets, at, each))) {
    const end = endOfText(octets, at + kind.length);
    if (end === nowhere || octets[end] !== COMMA) return nowhere;
    at = end + 1;
  }
  return standsAt(octets, at, metadata) ? at + metadata.length : nowhere;
}

/** @param from offset of the metadata's first member */
function identityFrom(octets: Buffer, from: number): ObjectIdentity | undefined {
  let [name, namespace, version] = ['', '', undefined as string | undefined];
  let at = from;
  while (octets[at] === QUOTE) {
    const nameAt = at + 1;
    const nameEnd = endOfText(octets, nameAt) - 1;
    if (nameEnd < nameAt || octets[nameEnd + 1] !== COLON) return undefined;
    const valueAt = nameEnd + 2;
    const member = memberAt(octets, nameAt, nameEnd - nameAt);
    at = member === undefined ? endOfValue(octets, valueAt) : octets[valueAt] === QUOTE ? endOfText(octets, valueAt + 1) : nowhere;
    if (at === nowhere) return undefined;
    if (member === 'name') name = octets.toString('utf8', valueAt + 1, at - 1);
    else if (member === 'namespace') namespace = octets.toString('utf8', valueAt + 1, at - 1);
    else if (member === 'version') version = octets.toString('utf8', valueAt + 1, at - 1);
    if (octets[at] === CLOSE) return name === '' || version === undefined ? undefined : { key: objectKey(namespace, name), version };
    if (octets[at] !== COMMA) return undefined;
    at++;
  }
  return undefined;
}

function memberAt(octets: Buffer, at: number, length: number): keyof typeof members | undefined {
  if (length === members.name.length && standsAt(octets, at, members.name)) return 'name';
  if (length === members.namespace.length && standsAt(octets, at, members.namespace)) return 'namespace';
  return length === members.version.length && standsAt(octets, at, members.version) ? 'version' : undefined;
}

function standsAt(octets: Buffer, at: number, what: Buffer): boolean {
  for (let index = 0; index < what.length; index++) if (octets[at + index] !== what[index]) return false;
  return true;
}

/**
 * @param from offset after the opening quote @returns the offset after the closing one; `nowhere` for strings with escapes, or invalid JSON
 */
function endOfText(octets: Buffer, from: number): number {
  for (let at = from; at < octets.length; at++) {
    const octet = octets[at] ?? 0;
    if (octet === QUOTE) return at + 1;
    if (octet === BACKSLASH || octet < SPACE) return nowhere;
  }
  return nowhere;
}

/** Skips a value by counting brackets. @returns the offset of the comma or the brace that follows it */
function endOfValue(octets: Buffer, from: number): number {
  let [depth, inString] = [0, false];
  for (let at = from; at < octets.length; at++) {
    const octet = octets[at];
    if (inString) {
      if (octet === BACKSLASH) at++;
      else if (octet === QUOTE) inString = false;
    } else if (octet === QUOTE) inString = true;
    else if (octet === OPEN || octet === OPEN_LIST) depth++;
    else if (depth > 0) {
      if (octet === CLOSE || octet === CLOSE_LIST) depth--;
    } else if (octet === COMMA || octet === CLOSE) return at;
  }
  return nowhere;
}
