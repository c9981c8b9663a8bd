import { identityIn, type ObjectIdentity } from './resource.ts';

/*
 * Servers write what an object is before what it says, and of tens of thousands of a first list most are held in that very version: these need not be parsed.
 */

/** So much stands before the metadata at most, where nothing else does. */
const HEAD_BYTES = 160;
const kindOfObject = '(?:"(?:kind|apiVersion)":"[\\w./-]*",)*"metadata":(?=\\{)';
const heads = {
  /** An element of a list. */
  object: new RegExp(`^\\{${kindOfObject}`),
  /** An event of a watch that says that an object is there. */
  added: new RegExp(`^\\{"type":"ADDED","object":\\{${kindOfObject}`),
} as const;

const [QUOTE, BACKSLASH, OPEN, CLOSE] = ['"', '\\', '{', '}'].map((each) => each.charCodeAt(0));

/**
 * What `identityIn` says of an object, from its first octets alone.
 *
 * @param octets of one whole JSON object
 * @returns undefined where something stands before the metadata, or in it, that is not as servers have it: it is to be parsed then
 */
export function identityAhead(octets: Buffer, form: keyof typeof heads): ObjectIdentity | undefined {
  const [head] = heads[form].exec(octets.toString('latin1', 0, HEAD_BYTES)) ?? [];
  const end = head === undefined ? undefined : endOfObject(octets, head.length);
  if (head === undefined || end === undefined) return undefined;
  try {
    return identityIn({ metadata: JSON.parse(octets.toString('utf8', head.length, end)) });
  } catch {
    return undefined; // whoever parses the whole says what is wrong
  }
}

/** @param from its brace @returns what follows its closing brace; undefined if there is none */
function endOfObject(octets: Buffer, from: number): number | undefined {
  let [depth, inString] = [0, false];
  for (let at = from; at < octets.length; at++) {
    const octet = octets[at];
    if (inString && octet === BACKSLASH) at++;
    else if (octet === QUOTE) inString = !inString;
    else if (inString) continue;
    else if (octet === OPEN) depth++;
    else if (octet === CLOSE && --depth === 0) return at + 1;
  }
  return undefined;
}
