import { type ObjectIdentity, objectKey } from '../resource.ts';

/*
 * Servers write what an object is before what it says, and of tens of thousands of a first list most are held in that very version: these need not be parsed. They
 * write without spaces; where one is, or anything else that is not as they have it, the object is to be parsed.
 */

const octetsOf = (text: string): Buffer => Buffer.from(text, 'latin1');

/** What stands before the object. */
const heads = {
  /** An element of a list. */
  object: octetsOf(''),
  /** An event of a watch that says that an object is there. */
  added: octetsOf('{"type":"ADDED","object":'),
} as const;

/** What may stand before the metadata. */
const kinds = ['"kind":"', '"apiVersion":"'].map(octetsOf);
const metadata = octetsOf('"metadata":{');
const members = { name: octetsOf('name'), namespace: octetsOf('namespace'), version: octetsOf('resourceVersion') } as const;

const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COLON, COMMA, SPACE] = Array.from('"\\{}[]:, ', (each) =>
  each.charCodeAt(0),
) as [number, number, number, number, number, number, number, number, number];

/** Of what is not there. */
const nowhere = -1;

/**
 * What `identityIn` says of an object, from its first octets alone.
 *
 * @param octets of one whole JSON object
 * @returns undefined where something stands before the metadata, or in it, that is not as servers have it: it is to be parsed then
 */
export function identityAhead(octets: Buffer, form: keyof typeof heads): ObjectIdentity | undefined {
  const head = heads[form];
  if (!standsAt(octets, 0, head) || octets[head.length] !== OPEN) return undefined;
  const from = metadataFrom(octets, head.length + 1);
  return from === nowhere ? undefined : identityFrom(octets, from);
}

/** @returns where the first member of the metadata begins */
function metadataFrom(octets: Buffer, from: number): number {
  let at = from;
  for (let kind = kinds.find((each) => standsAt(octets, at, each)); kind; kind = kinds.find((each) => standsAt(octets, at, each))) {
    const end = endOfText(octets, at + kind.length);
    if (end === nowhere || octets[end] !== COMMA) return nowhere;
    at = end + 1;
  }
  return standsAt(octets, at, metadata) ? at + metadata.length : nowhere;
}

/** @param from the first member of the metadata */
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

/** @param from behind the opening quote @returns what follows the closing one; nowhere for what is written with escapes, or is no JSON */
function endOfText(octets: Buffer, from: number): number {
  for (let at = from; at < octets.length; at++) {
    const octet = octets[at] ?? 0;
    if (octet === QUOTE) return at + 1;
    if (octet === BACKSLASH || octet < SPACE) return nowhere;
  }
  return nowhere;
}

/** Of a value that is not looked into: brackets are counted. @returns the comma or the brace that follows it */
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
