import { ipFromValue } from '../../base/net/ip.ts';
import type { FieldFormat } from '../match/fields.ts';
import { type AnyValue, requireField } from '../match/oxm.ts';
import { ofPort } from '../protocol.ts';

/** Names for numbers, as with `ovs-ofctl --names`. Both functions are called for each number; `undefined` prints the number. */
export interface TextNames {
  readonly table?: (table: number) => string | undefined;
  readonly port?: (port: number) => string | undefined;
}

const reservedPorts = new Map<number, string>([
  [ofPort.unset, 'UNSET'],
  [ofPort.inPort, 'IN_PORT'],
  [ofPort.table, 'TABLE'],
  [ofPort.normal, 'NORMAL'],
  [ofPort.flood, 'FLOOD'],
  [ofPort.all, 'ALL'],
  [ofPort.controller, 'CONTROLLER'],
  [ofPort.local, 'LOCAL'],
  [ofPort.any, 'ANY'],
]);

export function isReservedPort(port: number): boolean {
  return reservedPorts.has(port);
}

export function printPort(port: number, names: TextNames): string {
  return reservedPorts.get(port) ?? names.port?.(port) ?? String(port);
}

export function printTable(table: number, names: TextNames): string {
  return names.table?.(table) ?? String(table);
}

/** Like `%#x` of C: zero is `0`. */
export function hexOrZero(value: number | bigint): string {
  return Number(value) === 0 ? '0' : `0x${value.toString(16)}`;
}

export function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

export function printMac(value: number): string {
  const digits = value.toString(16).padStart(12, '0');
  return digits.replace(/(..)(?=.)/g, '$1:');
}

export function printIpv4(value: number): string {
  return `${Math.floor(value / 0x1000000)}.${Math.floor(value / 0x10000) % 256}.${Math.floor(value / 256) % 256}.${value % 256}`;
}

export function printIpv6(value: bigint): string {
  return ipFromValue('ipv6', value).text;
}

export function hexText(bytes: Uint8Array, separator: string): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(separator);
}

/** Prefix length of a mask of leading ones; `undefined` for others. */
function prefixLength(mask: bigint, bits: number): number | undefined {
  const zeros = ((1n << BigInt(bits)) - 1n) ^ mask;
  return (zeros & (zeros + 1n)) === 0n ? bits - zeros.toString(2).length + (zeros === 0n ? 1 : 0) : undefined;
}

export function printIpv4Masked(value: number, mask: number): string {
  const length = prefixLength(BigInt(mask), 32);
  return `${printIpv4(value)}${length === 32 ? '' : `/${length ?? printIpv4(mask)}`}`;
}

export function printIpv6Masked(value: bigint, mask: bigint): string {
  const length = prefixLength(mask, 128);
  return `${printIpv6(value)}${length === 128 ? '' : `/${length ?? printIpv6(mask)}`}`;
}

export const ctStateFlags = ['new', 'est', 'rel', 'rpl', 'inv', 'trk', 'snat', 'dnat'] as const;
export const tcpFlags = ['fin', 'syn', 'rst', 'psh', 'ack', 'urg', 'ece', 'cwr', 'ns', '[200]', '[400]', '[800]'] as const;
export const tunnelFlags = ['oam'] as const;

/** Prints `+set-clear` for each bit of the mask, lowest first. */
export function printFlagsMasked(names: readonly string[], value: number, mask: number): string {
  let text = '';
  for (const [bit, name] of names.entries()) {
    if ((mask >>> bit) & 1) text += `${(value >>> bit) & 1 ? '+' : '-'}${name}`;
  }
  return text;
}

/** Prints the set flags separated by bars; `0` for none. */
export function printFlags(names: readonly string[], value: number): string {
  const set = names.filter((_, bit) => (value >>> bit) & 1);
  return set.length === 0 ? '0' : set.join('|');
}

/** Prints a value (and mask) in the form of `set_field` and constants of `learn`. */
export function printFieldValue(name: string, value: AnyValue, mask: AnyValue | undefined, names: TextNames): string {
  const { format } = requireField(name);
  if (typeof value === 'object') return printBytes(value, mask);
  if (typeof value === 'bigint') return printWide(format, value, typeof mask === 'bigint' ? mask : undefined);
  return printNumber(format, value, typeof mask === 'number' ? mask : undefined, names);
}

function printBytes(value: Uint8Array, mask: AnyValue | undefined): string {
  const tail = mask instanceof Uint8Array ? `/${hexOfBytes(mask)}` : '';
  return hexOfBytes(value) + tail;
}

export function hexOfBytes(bytes: Uint8Array): string {
  return `0x${hexText(bytes, '').replace(/^0+(?=.)/, '')}`;
}

function printWide(format: FieldFormat, value: bigint, mask: bigint | undefined): string {
  if (format === 'ipv6') return mask === undefined ? printIpv6(value) : printIpv6Masked(value, mask);
  return hexOrZero(value) + (mask === undefined ? '' : `/${hexOrZero(mask)}`);
}

/** Values for any fragment, and for a later one. */
const WHOLE_FRAGMENT_FIELD = 3;

/** Source: ovs-fields(7) "ip_frag". */
export function fragmentWord(value: number, mask: number): string {
  if (mask === 1) return value & 1 ? 'yes' : 'no';
  if (mask === 2) return value & 2 ? 'later' : 'not_later';
  return value & 1 ? (value & 2 ? 'later' : 'first') : 'no';
}

function printNumber(format: FieldFormat, value: number, mask: number | undefined, names: TextNames): string {
  switch (format) {
    case 'ethernet':
      return printMac(value) + (mask === undefined ? '' : `/${printMac(mask)}`);
    case 'ipv4':
      return mask === undefined ? printIpv4(value) : printIpv4Masked(value, mask);
    case 'port':
      return printPort(value, names);
    case 'tcpFlags':
      return mask === undefined ? printFlags(tcpFlags, value) : printFlagsMasked(tcpFlags, value, mask);
    case 'tunnelFlags':
      return mask === undefined ? printFlags(tunnelFlags, value) : printFlagsMasked(tunnelFlags, value, mask);
    case 'ctState':
      return mask === undefined ? printFlags(ctStateFlags, value) : printFlagsMasked(ctStateFlags, value, mask);
    case 'frag':
      return fragmentWord(value, mask ?? WHOLE_FRAGMENT_FIELD);
    case 'hex':
      return hexOrZero(value) + (mask === undefined ? '' : `/${hexOrZero(mask)}`);
    default:
      return value + (mask === undefined ? '' : `/${hex(mask)}`);
  }
}
