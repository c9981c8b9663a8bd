import { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import type { ActionOf } from '../actions/action.ts';
import { badText, callOf, cutAt, parseNumber, splitTop } from './scan.ts';
import { hexOrZero, hexText } from './value-text.ts';

const ETHERNET = 0;
const NSH = 0x0001_894f;
const MPLS = 0x0001_8847;
const MPLS_MULTICAST = 0x0001_8848;

const words = new Map<number, string>([
  [ETHERNET, 'ethernet'],
  [NSH, 'nsh'],
  [MPLS, 'mpls'],
  [MPLS_MULTICAST, 'mpls_mcast'],
]);

const NSH_CLASS = 4;
const MD_TYPE = 1;
const TLV = 2;

export function printEncap({ packetType, properties }: ActionOf<'encap'>): string {
  const word = words.get(packetType) ?? packetTypeText(packetType);
  return properties.length === 0 ? `encap(${word})` : `encap(${word}(${printProperties(properties)}))`;
}

export function printDecap({ packetType }: ActionOf<'decap'>): string {
  return `decap(${packetType === undefined ? '' : packetTypeText(packetType)})`;
}

function packetTypeText(packetType: number): string {
  return `packet_type(ns=${packetType >>> 16},type=${hexOrZero(packetType & 0xffff)})`;
}

/** Properties that cannot be decoded are shown as bytes. */
function printProperties(properties: Uint8Array): string {
  const parts: string[] = [];
  const r = new ByteReader(properties, 'encap properties');
  while (r.remaining >= 4) {
    const [kind, type, length] = [r.u16(), r.u8(), r.u8()];
    if (length < 4 || length - 4 > r.remaining || kind !== NSH_CLASS) return `properties=${hexText(properties, '')}`;
    const value = r.raw(length - 4);
    r.skip(Math.min((8 - (length % 8)) % 8, r.remaining));
    if (type === MD_TYPE) parts.push(`md_type=${value[0]}`);
    else if (type === TLV && value.length >= 4) parts.push(printTlv(value));
    else return `properties=${hexText(properties, '')}`;
  }
  return parts.join(',');
}

function printTlv(value: Uint8Array): string {
  const [high = 0, low = 0, type = 0, length = 0] = value;
  return `tlv(0x${(high * 256 + low).toString(16)},${type},0x${hexText(value.subarray(4, 4 + length), '')})`;
}

/** Parses the inside of `encap(…)`. */
export function parseEncap(inside: string): ActionOf<'encap'> {
  const call = callOf(inside);
  const packetType = [...words].find(([, word]) => word === (call?.name ?? inside))?.[0];
  if (packetType === undefined) throw badText('encap of no known header', inside);
  const w = new ByteWriter();
  for (const part of call === undefined ? [] : splitTop(call.inside, ',')) writePart(w, part);
  return { kind: 'encap', packetType, properties: w.finish() };
}

function writePart(w: ByteWriter, part: string): void {
  const start = w.length;
  w.u16(NSH_CLASS);
  const tlv = callOf(part);
  if (tlv?.name === 'tlv') {
    const [kind = '', type = '', data = ''] = splitTop(tlv.inside, ', ');
    const bytes = Uint8Array.from(Buffer.from(data.replace(/^0x/, ''), 'hex'));
    if (bytes.length === 0 || bytes.length > 248) throw badText('tlv without data', part);
    w.u8(TLV)
      .u8(0)
      .u16(parseNumber(kind, 0xffff, 'class'))
      .u8(parseNumber(type, 0xff, 'type'))
      .u8(bytes.length);
    w.raw(bytes).alignTo(8, start);
    w.patchU16(start + 2, TLV * 256 + w.length - start);
    return;
  }
  const { before, after = '' } = cutAt(part, '=');
  if (before !== 'md_type') throw badText('part of encap', part);
  w.u8(MD_TYPE)
    .u8(5)
    .u8(parseNumber(after, 0xff, before))
    .alignTo(8, start);
}

/** Parses the inside of `decap(…)`. */
export function parseDecap(inside: string): ActionOf<'decap'> {
  if (inside.trim() === '') return { kind: 'decap' };
  const [, namespace = '', type = ''] = /^packet_type\(\s*ns=(\w+)\s*,\s*type=(\w+)\s*\)$/.exec(inside) ?? [];
  return { kind: 'decap', packetType: parseNumber(namespace, 0xffff, 'ns') * 0x10000 + parseNumber(type, 0xffff, 'type') };
}
