import { decodeInstructions } from '../flows/instructions.ts';
import { decodeMatch } from '../match/match.ts';
import { OPENFLOW_15, type Version } from '../protocol.ts';
import { printInstructions } from './action-text.ts';
import { printMatch } from './match-text.ts';
import { hexText, type TextNames } from './value-text.ts';

/** Prints `name=value` for each member: the form of messages without a printer of their own. */
export function plainText(body: unknown, names: TextNames = {}): string {
  if (typeof body !== 'object' || body === null) return String(body);
  if (body instanceof Uint8Array) return hexText(body, '');
  if (Array.isArray(body)) return body.map((item) => `{${plainText(item, names)}}`).join(' ');
  return Object.entries(body)
    .filter(([, value]) => !(Array.isArray(value) && value.length === 0))
    .map(
      ([name, value]) =>
        `${snake(name)}=${typeof value === 'object' && !(value instanceof Uint8Array) ? `(${plainText(value, names)})` : plainText(value, names)}`,
    )
    .join(' ');
}

/** `missSendLength` → `miss_send_length`. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (upper) => `_${upper.toLowerCase()}`);
}

/** Prints a match and actions like a flow: `ip,nw_src=10.0.0.1 actions=drop`. */
export function flowText(
  match: Uint8Array,
  instructions: Uint8Array | undefined,
  names: TextNames,
  version: Version = OPENFLOW_15,
  before: readonly string[] = [],
): string {
  const matched = [...before, ...printMatch(decodeMatch(match), names)].join(',');
  const done = instructions === undefined ? '' : `actions=${printInstructions(decodeInstructions(instructions, version), names)}`;
  return [matched, done].filter((part) => part !== '').join(' ');
}

/** Prints a duration like ovs-ofctl: seconds, with at least three decimal places. */
export function secondsText(ns: bigint): string {
  const [seconds, rest] = [ns / 1_000_000_000n, (ns % 1_000_000_000n).toString().padStart(9, '0')];
  return `${seconds}.${rest.replace(/0{0,6}$/, '')}`;
}

/** Returns the names of the bits that are set, or `0`; bits without a name as one number. */
export function bitsText(value: number, names: readonly string[], separator = ' '): string {
  const known = names.flatMap((name, bit) => ((value >>> bit) & 1 && name !== '' ? [name] : []));
  const rest = names.reduce((left, name, bit) => (name === '' ? left : left & ~(1 << bit)), value) >>> 0;
  if (rest !== 0) known.push(`0x${rest.toString(16)}`);
  return known.length === 0 ? '0' : known.join(separator);
}
