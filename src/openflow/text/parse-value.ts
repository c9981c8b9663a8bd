import { isIp, parseIp } from '../../base/net/ip.ts';
import type { FieldName, Subfield } from '../match/fields.ts';
import { type AnyValue, requireField } from '../match/oxm.ts';
import { ofPort } from '../protocol.ts';
import { fieldNamesByHeader, fieldNamesByWord } from './field-names.ts';
import { badText, cutAt, parseBigint, parseNumber } from './scan.ts';
import { ctStateFlags, tcpFlags, tunnelFlags } from './value-text.ts';

/** Numbers for symbolic names; `undefined` for an unknown name. */
export interface TextNumbers {
  readonly table?: (name: string) => number | undefined;
  readonly port?: (name: string) => number | undefined;
}

const reservedPorts: Readonly<Record<string, number>> = {
  unset: ofPort.unset,
  in_port: ofPort.inPort,
  table: ofPort.table,
  normal: ofPort.normal,
  flood: ofPort.flood,
  all: ofPort.all,
  controller: ofPort.controller,
  local: ofPort.local,
  any: ofPort.any,
  none: ofPort.any,
};

/** @returns `undefined` if the text is not a port */
export function portOf(text: string, numbers: TextNumbers): number | undefined {
  const reserved = reservedPorts[text.toLowerCase()];
  if (reserved !== undefined) return reserved;
  if (/^(0x[0-9a-f]{1,8}|\d{1,10})$/i.test(text)) return portNumber(Number(text));
  return numbers.port?.(unquoted(text));
}

/** Reserved numbers may be given as 16 bits, as in OpenFlow 1.0. */
function portNumber(value: number): number | undefined {
  if (value >= 0xfff7 && value <= 0xffff) return value + 0xffff_0000;
  return value <= 0xffff_ffff ? value : undefined;
}

export function parsePort(text: string, numbers: TextNumbers): number {
  const port = portOf(text, numbers);
  if (port === undefined) throw badText('no such port', text);
  return port;
}

export function parseTable(text: string, numbers: TextNumbers): number {
  return numbers.table?.(unquoted(text)) ?? parseNumber(text, 254, 'table');
}

function unquoted(text: string): string {
  return /^".*"$/s.test(text) ? text.slice(1, -1) : text;
}

export interface ParsedValue {
  readonly value: AnyValue;
  readonly mask: AnyValue | undefined;
}

/** Parses `VALUE` or `VALUE/MASK` of a field. @throws SeineError `INVALID_INPUT` */
export function parseFieldValue(name: FieldName, text: string, numbers: TextNumbers): ParsedValue {
  const { format, bits } = requireField(name);
  switch (format) {
    case 'ctState':
      return parseFlags(ctStateFlags, text, bits);
    case 'tcpFlags':
      return parseFlags(tcpFlags, text, bits);
    case 'tunnelFlags':
      return parseFlags(tunnelFlags, text, bits);
    case 'frag':
      return parseFragment(text);
    case 'port':
      return { value: parsePort(text, numbers), mask: undefined };
    case 'packetType':
      return parsePacketType(text);
    default:
      return parsePlain(name, text);
  }
}

function parsePlain(name: FieldName, text: string): ParsedValue {
  const { before, after } = cutAt(text, '/');
  const value = parseOne(name, before);
  if (after === undefined) return { value, mask: undefined };
  return { value, mask: parseMask(name, after) };
}

function parseOne(name: FieldName, text: string): AnyValue {
  const { format, bits } = requireField(name);
  if (format === 'ethernet') return parseMacNumber(text);
  if (format === 'ipv4') return Number(parseFamily(text, 'ipv4'));
  if (format === 'ipv6') return parseFamily(text, 'ipv6');
  if (format === 'bytes') return parseHexBytes(text);
  return bits > 48 ? parseBigint(text, bits, name) : parseNumber(text, 2 ** bits - 1, name);
}

function parseMask(name: FieldName, text: string): AnyValue {
  const { format, bits } = requireField(name);
  if ((format === 'ipv4' || format === 'ipv6') && /^\d{1,3}$/.test(text)) {
    const length = parseNumber(text, bits, `prefix length of ${name}`);
    const mask = ((1n << BigInt(length)) - 1n) << BigInt(bits - length);
    return format === 'ipv4' ? Number(mask) : mask;
  }
  return parseOne(name, text);
}

function parseMacNumber(text: string): number {
  if (!/^([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}$/i.test(text)) throw badText('no Ethernet address', text);
  return text.split(':').reduce((value, byte) => value * 256 + Number.parseInt(byte, 16), 0);
}

function parseFamily(text: string, family: 'ipv4' | 'ipv6'): bigint {
  const ip = isIp(text) ? parseIp(text) : undefined;
  if (ip?.family !== family) throw badText(`no ${family} address`, text);
  return ip.value;
}

function parseHexBytes(text: string): Uint8Array {
  const digits = /^\d{1,9}$/.test(text) ? Number(text).toString(16) : /^0x([0-9a-f]{1,248})$/i.exec(text)?.[1];
  if (digits === undefined) throw badText('no hexadecimal bytes', text);
  return Uint8Array.from(Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex'));
}

/** Parses `+a-b`, `a|b`, or numbers. */
function parseFlags(names: readonly string[], text: string, bits: number): ParsedValue {
  if (/^[\d]/.test(text)) {
    const { before, after } = cutAt(text, '/');
    const max = 2 ** bits - 1;
    return { value: parseNumber(before, max, 'flags'), mask: after === undefined ? undefined : parseNumber(after, max, 'flags') };
  }
  if (!/^[+-]/.test(text)) return { value: flagBits(names, text.split('|')), mask: undefined };
  const set = text.match(/\+[^+-]+/g) ?? [];
  const clear = text.match(/-[^+-]+/g) ?? [];
  const value = flagBits(
    names,
    set.map((flag) => flag.slice(1)),
  );
  return {
    value,
    mask:
      value |
      flagBits(
        names,
        clear.map((flag) => flag.slice(1)),
      ),
  };
}

function flagBits(names: readonly string[], flags: readonly string[]): number {
  return flags.reduce((bits, flag) => {
    const bit = names.indexOf(flag);
    if (bit < 0) throw badText('no such flag', flag);
    return bits | (1 << bit);
  }, 0);
}

const fragments: Readonly<Record<string, ParsedValue>> = {
  no: { value: 0, mask: 3 },
  yes: { value: 1, mask: 1 },
  first: { value: 1, mask: 3 },
  later: { value: 3, mask: 3 },
  not_later: { value: 0, mask: 2 },
};

function parseFragment(text: string): ParsedValue {
  const found = fragments[text];
  if (found === undefined) throw badText('no kind of fragment', text);
  return found;
}

function parsePacketType(text: string): ParsedValue {
  const [, namespace, type] = /^\(\s*(\w+)\s*,\s*(\w+)\s*\)$/.exec(text) ?? [];
  if (namespace === undefined || type === undefined) throw badText('no packet type', text);
  return { value: parseNumber(namespace, 0xffff, 'namespace') * 0x10000 + parseNumber(type, 0xffff, 'packet type'), mask: undefined };
}

/** Returns a field by any of its names: `nw_src`, `ip_src`, `NXM_OF_IP_SRC`. `undefined` if there is none. */
export function fieldCalled(name: string): FieldName | undefined {
  return fieldNamesByWord.get(name) ?? fieldNamesByHeader.get(name);
}

/** Parses `NAME[]`, `NAME[3]`, `NAME[0..15]`, or a name alone for all of it. @returns `undefined` if it does not begin with a field */
export function subfieldOf(text: string): Subfield | undefined {
  const [, name = '', range] = /^([A-Za-z_0-9]+)(?:\[([^\]]*)\])?$/.exec(text) ?? [];
  const field = fieldCalled(name);
  if (field === undefined) return undefined;
  const { subfieldBits: width } = requireField(field);
  if (range === undefined || range === '') return { field, offset: 0, bits: width };
  const [, first, last = first] = /^(\d{1,3})(?:\.\.(\d{1,3}))?$/.exec(range) ?? [];
  const [low, high] = [Number(first), Number(last)];
  if (!(low <= high && high < width)) throw badText(`no bits of ${field}`, text);
  return { field, offset: low, bits: high - low + 1 };
}

export function parseSubfield(text: string): Subfield {
  const found = subfieldOf(text);
  if (found === undefined) throw badText('no field', text);
  return found;
}
