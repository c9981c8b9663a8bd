import type { FieldName } from '../match/fields.ts';
import type { Match } from '../match/match.ts';
import type { AnyValue, Masked } from '../match/oxm.ts';
import { shorthands } from './match-text.ts';
import { fieldCalled, type ParsedValue, parseFieldValue, type TextNumbers } from './parse-value.ts';
import { badText, cutAt, parseNumber } from './scan.ts';

type ParsedMatchFields = Record<string, AnyValue | Masked<AnyValue>>;

/** Ethernet type and IP protocol of `tcp`, `arp`, …. */
const shorthandMatches = new Map<string, Match>([
  ...Array.from(shorthands).flatMap(([type, words]) =>
    words.map(({ word, protocol }) => [word, { eth_type: type, ...(protocol === undefined ? {} : { ip_proto: protocol }) }] as const),
  ),
  ['icmpv6', { eth_type: 0x86dd, ip_proto: 58 }],
  ['eth', {}],
]);

/** Meaning of `tp_src` and `tp_dst`, by IP protocol. */
const transports = new Map<unknown, 'tcp' | 'udp' | 'sctp'>([
  [6, 'tcp'],
  [17, 'udp'],
  [132, 'sctp'],
]);

/**
 * Parses parts like `tcp`, `nw_dst=10.0.0.0/8`, `reg0=1/0xf`, in any order.
 *
 * @throws SeineError `INVALID_INPUT` if a part is invalid, or a field occurs twice
 */
export function parseMatch(parts: readonly string[], numbers: TextNumbers = {}): Match {
  const given: ParsedMatchFields = {};
  for (const part of parts) {
    const shorthand = shorthandMatches.get(part);
    if (shorthand !== undefined) for (const [name, value] of Object.entries(shorthand)) put(given, name, value, part);
  }
  for (const part of parts) if (!shorthandMatches.has(part)) parsePart(given, part, numbers);
  return given as Match; // the row of each name determines the type of its value
}

function parsePart(given: ParsedMatchFields, part: string, numbers: TextNumbers): void {
  const { before: word, after: text } = cutAt(part, '=');
  if (text === undefined) throw badText('part of a match without a value', part);
  if (parseSpecial(given, word, text, part)) return;
  const name = fieldFor(word, given);
  if (name === undefined) throw badText('no such field', part);
  const parsed = parseFieldValue(name, text, numbers);
  putParsed(given, name, parsed, part);
}

/** Words that do not name a single field. */
function parseSpecial(given: ParsedMatchFields, word: string, text: string, part: string): boolean {
  switch (word) {
    case 'dl_vlan': {
      const vid = parseNumber(text, 0xffff, word);
      put(given, 'vlan_vid', vid === 0xffff ? 0 : (vid & 0xfff) + 0x1000, part);
      return true;
    }
    case 'dl_vlan_pcp':
      put(given, 'vlan_pcp', parseNumber(text, 7, word), part);
      if (given['vlan_vid'] === undefined) given['vlan_vid'] = { value: 0x1000, mask: 0x1000 };
      return true;
    case 'nw_tos':
      put(given, 'ip_dscp', parseNumber(text, 255, word) >>> 2, part);
      return true;
    default:
      return false;
  }
}

function fieldFor(word: string, given: ParsedMatchFields): FieldName | undefined {
  const isV6 = given['eth_type'] === 0x86dd;
  if (word === 'icmp_type') return isV6 ? 'icmpv6_type' : 'icmp_type';
  if (word === 'icmp_code') return isV6 ? 'icmpv6_code' : 'icmp_code';
  if (word === 'tp_src' || word === 'tp_dst') {
    const transport = transports.get(given['ip_proto']);
    return transport && (word === 'tp_src' ? `${transport}_src` : `${transport}_dst`);
  }
  if (word === 'nw_proto' && given['eth_type'] === 0x0806) return 'arp_op';
  return fieldCalled(word);
}

function putParsed(given: ParsedMatchFields, name: FieldName, { value, mask }: ParsedValue, part: string): void {
  if (mask === undefined) put(given, name, value, part);
  else if (!isNothing(mask)) put(given, name, { value, mask } as Masked<AnyValue>, part);
}

function isNothing(mask: AnyValue): boolean {
  return typeof mask === 'object' ? mask.every((byte) => byte === 0) : Number(mask) === 0;
}

function put(given: ParsedMatchFields, name: string, value: AnyValue | Masked<AnyValue> | undefined, part: string): void {
  if (value === undefined) return;
  if (given[name] !== undefined) throw badText(`${name} is matched twice`, part);
  given[name] = value;
}
