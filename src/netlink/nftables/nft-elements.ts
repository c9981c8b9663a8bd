import { SeineError } from '../../base/errors/seine-error.ts';
import type { Cidr, Ip } from '../../base/net/ip.ts';
import { type NftFamily, nftName } from './nftables.ts';

/**
 * Element of a set (no value) or of a map, in the canonical text that both `nftText` and `readElements` return, so that desired and actual
 * elements can be compared as strings.
 */
export interface NftElement {
  readonly key: string;
  readonly value?: string;
}

/** One component of a key or value: an address or network, a port or other number, a transport protocol, or a verdict. */
type NftPart = Ip | Cidr | number | 'tcp' | 'udp' | 'sctp' | NftVerdict;

type NftVerdict = { readonly verdict: 'accept' | 'drop' | 'return' } | { readonly verdict: 'jump' | 'goto'; readonly chain: string };

/** Set or map of elements. */
interface NftSet {
  readonly family: NftFamily;
  readonly table: string;
  readonly name: string;
}

/** `10.96.0.1 . 6 . 80`: concatenation in the syntax of nft(8), with protocols as numbers, as nft lists them here. */
export function nftText(...parts: readonly NftPart[]): string {
  return parts.map(partText).join(' . ');
}

/**
 * Returns the commands that delete `remove` from a set or map and add `add`. Deletions come first, so an element whose value changes is in
 * both lists. They are in one transaction with everything else in the same text.
 *
 * A deletion fails, and the transaction with it, if the element does not exist; an addition, if its key exists with another value.
 */
export function elementChanges(
  set: NftSet,
  { remove, add }: { readonly remove: readonly NftElement[]; readonly add: readonly NftElement[] },
): string {
  const target = `${set.family} ${nftName(set.table)} ${nftName(set.name)}`;
  const lines: string[] = [];
  if (remove.length > 0) lines.push(`delete element ${target} { ${remove.map(({ key }) => checked(key)).join(', ')} }`);
  if (add.length > 0) lines.push(`add element ${target} { ${add.map(elementText).join(', ')} }`);
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * Reads the elements of a set or map from the objects of a listing, sorted by key.
 *
 * @returns undefined if the listing has no such set
 * @throws SeineError `PROTOCOL` if an element has an unknown form
 */
export function readElements(objects: readonly unknown[], name: string): NftElement[] | undefined {
  for (const object of objects) {
    const body = field(object, 'set') ?? field(object, 'map');
    if (body === undefined || field(body, 'name') !== name) continue;
    const elements = field(body, 'elem') ?? [];
    if (!Array.isArray(elements)) throw unknownForm(elements);
    const isMap = field(body, 'map') !== undefined;
    return elements.map((element) => readElement(element, isMap)).sort((a, b) => (a.key < b.key ? -1 : 1));
  }
  return undefined;
}

const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const;

function partText(part: NftPart): string {
  if (typeof part === 'number') {
    if (!Number.isSafeInteger(part) || part < 0) throw new SeineError('INVARIANT', `${part} is not a number for nftables`);
    return String(part);
  }
  if (typeof part === 'string') return String(protocolNumbers[part]);
  if ('verdict' in part)
    return part.verdict === 'jump' || part.verdict === 'goto' ? `${part.verdict} ${nftName(part.chain)}` : part.verdict;
  return part.text;
}

function elementText({ key, value }: NftElement): string {
  return value === undefined ? checked(key) : `${checked(key)} : ${checked(value)}`;
}

/** Refuses text that could end the list: it may come from a file. */
function checked(text: string): string {
  if (!/^[A-Za-z0-9_.:/ -]{1,255}$/.test(text))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not an element for nftables`);
  return text;
}

function readElement(element: unknown, isMap: boolean): NftElement {
  if (!isMap) return { key: readText(element) };
  if (!Array.isArray(element) || element.length !== 2) throw unknownForm(element);
  const [key, value]: readonly unknown[] = element;
  return { key: readText(key), value: readText(value) };
}

/** Reads an element. Source: libnftables-json(5), "expressions". */
function readText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  const inner = field(value, 'elem');
  if (inner !== undefined) return readText(field(inner, 'val')); // with a comment, counter or timeout
  const parts = field(value, 'concat');
  if (Array.isArray(parts)) return parts.map(readText).join(' . ');
  const prefix = field(value, 'prefix');
  if (prefix !== undefined) return `${readText(field(prefix, 'addr'))}/${readText(field(prefix, 'len'))}`;
  const range = field(value, 'range');
  if (Array.isArray(range) && range.length === 2) return range.map(readText).join('-');
  return readVerdict(value);
}

function readVerdict(value: unknown): string {
  for (const verdict of ['accept', 'drop', 'return'] as const) if (field(value, verdict) === null) return verdict;
  for (const verdict of ['jump', 'goto'] as const) {
    const target = field(field(value, verdict), 'target');
    if (typeof target === 'string') return `${verdict} ${target}`;
  }
  throw unknownForm(value);
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

function unknownForm(value: unknown): SeineError {
  return new SeineError('PROTOCOL', `nftables listed an element of an unknown form: ${JSON.stringify(value)?.slice(0, 200)}`);
}
