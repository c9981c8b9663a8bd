import { SeineError } from '../errors/seine-error.ts';
import { type Ipv6Groups, ipv6GroupsOf, ipv6GroupsOfValue, ipv6Text, ipv6ValueOf } from './ipv6-groups.ts';

export type Family = 'ipv4' | 'ipv6';

/**
 * IP address. `text` is canonical (dotted quad, or compressed lower-case text by RFC 5952), so two addresses are equal exactly when their
 * texts are.
 */
export interface Ip {
  readonly family: Family;
  readonly text: string;
  /** Address as a number of 32 or 128 bits. */
  readonly value: bigint;
}

/** Network: its first address and the length of its prefix. Host bits are zero. */
export interface Cidr {
  readonly family: Family;
  readonly network: Ip;
  readonly prefixLength: number;
  /** Canonical text `address/length`. */
  readonly text: string;
}

export function addressBits(family: Family): 32 | 128 {
  return family === 'ipv4' ? 32 : 128;
}

/**
 * Parses an address.
 *
 * @throws SeineError `INVALID_INPUT` if `text` is not an IPv4 or IPv6 address (zones and IPv4 with leading zeros are refused)
 */
export function parseIp(text: string): Ip {
  const ip = readIp(text);
  if (ip === undefined) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not an IP address`);
  return ip;
}

function readIp(text: string): Ip | undefined {
  if (text.includes(':')) {
    const groups = ipv6GroupsOf(text, ipv4Number);
    return groups && ipv6Of(groups);
  }
  const value = ipv4Number(text);
  // An IPv4 address has only one valid text, so the given string is kept instead of a second one.
  return value >= 0 ? { family: 'ipv4', value: BigInt(value), text } : undefined;
}

function ipv6Of(groups: Ipv6Groups): Ip {
  return { family: 'ipv6', value: ipv6ValueOf(groups), text: ipv6Text(groups) };
}

export function isIp(text: string): boolean {
  return text.includes(':') ? ipv6GroupsOf(text, ipv4Number) !== undefined : ipv4Number(text) >= 0;
}

/** Returns the canonical text of an address without its number: a list may be long. @returns undefined if `text` is not an address */
export function canonicalIp(text: string): string | undefined {
  if (!text.includes(':')) return ipv4Number(text) >= 0 ? text : undefined;
  const groups = ipv6GroupsOf(text, ipv4Number);
  return groups && ipv6Text(groups);
}

export function ipFromValue(family: Family, value: bigint): Ip {
  if (value < 0n || value >> BigInt(addressBits(family)) !== 0n) throw new SeineError('INVARIANT', `${value} is not an ${family} address`);
  return { family, value, text: family === 'ipv4' ? ipv4Text(Number(value)) : ipv6Text(ipv6GroupsOfValue(value)) };
}

/** Returns 4 or 16 bytes in network byte order. */
export function ipToBytes(ip: Ip): Uint8Array {
  const bytes = new Uint8Array(addressBits(ip.family) / 8);
  let rest = ip.value;
  for (let at = bytes.length - 1; at >= 0; at--) {
    bytes[at] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

/** Reads an address. @param bytes 4 or 16 bytes, network byte order */
export function ipFromBytes(bytes: Uint8Array): Ip {
  if (bytes.length !== 4 && bytes.length !== 16) throw new SeineError('INVARIANT', `an IP address has 4 or 16 bytes, not ${bytes.length}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  // In whole words: the kernel's lists have thousands of addresses, and a big integer for each byte is garbage.
  return bytes.length === 4
    ? ipFromValue('ipv4', BigInt(view.getUint32(0)))
    : ipFromValue('ipv6', (view.getBigUint64(0) << 64n) | view.getBigUint64(8));
}

/** Parses a network and clears host bits. @throws SeineError `INVALID_INPUT` unless `text` is `address/length` */
export function parseCidr(text: string): Cidr {
  const slash = text.indexOf('/');
  const [address, length] = [text.slice(0, slash), text.slice(slash + 1)];
  const ip = slash >= 0 && /^\d{1,3}$/.test(length) ? readIp(address) : undefined;
  if (ip === undefined) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not a CIDR`);
  const prefixLength = Number(length);
  if (prefixLength > addressBits(ip.family))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)}: a prefix of ${ip.family} has at most ${addressBits(ip.family)} bits`);
  // Fast path for single addresses, of which there may be a hundred thousand.
  return prefixLength === addressBits(ip.family) ? hostCidr(ip) : cidrOf(ip, prefixLength);
}

/** Prefix of IPv4-mapped IPv6 addresses (RFC 4291, 2.5.5.2). No packet has them, so a rule that names them never matches. */
const mappedIpv4 = 0xffffn;

/** Reports whether a network consists of IPv4-mapped IPv6 addresses. */
export function isMappedIpv4({ family, prefixLength, network }: Cidr): boolean {
  return family === 'ipv6' && prefixLength >= 96 && network.value >> 32n === mappedIpv4;
}

/** Network with a description of errors in its notation. */
interface WrittenCidr {
  readonly cidr: Cidr;
  /**
   * Description of the error: leading zeros, which other parsers read as octal; host bits, which others read as an address; IPv4-mapped
   * IPv6.
   */
  readonly fault?: string;
  /** True if the only error is that it has host bits. */
  readonly hasHostBits?: true;
}

/**
 * Reads a network with the tolerance of Kubernetes.
 *
 * @throws SeineError `INVALID_INPUT` if Kubernetes would not accept it either
 */
export function readCidr(text: string): WrittenCidr {
  const plain = text.includes(':') ? text : text.replace(/(^|[./])0+(?=\d)/g, '$1');
  const cidr = parseCidr(plain);
  const [address = '', length = ''] = plain.split('/');
  if (plain !== text || length !== String(cidr.prefixLength))
    return { cidr, fault: `${JSON.stringify(text)} has leading zeros; ${cidr.text} has not` };
  if (isMappedIpv4(cidr)) return { cidr, fault: `${JSON.stringify(text)} is a network of IPv4 written as IPv6` };
  if (canonicalIp(address) !== cidr.network.text)
    return { cidr, fault: `${JSON.stringify(text)} has host bits; the network is ${cidr.text}`, hasHostBits: true };
  return { cidr };
}

/** Returns the network of `prefixLength` bits that contains `ip`. */
export function cidrOf(ip: Ip, prefixLength: number): Cidr {
  const hostBits = BigInt(addressBits(ip.family) - prefixLength);
  const network = ipFromValue(ip.family, (ip.value >> hostBits) << hostBits);
  return { family: ip.family, network, prefixLength, text: `${network.text}/${prefixLength}` };
}

/** Returns the network of one address. */
export function hostCidr(ip: Ip): Cidr {
  const prefixLength = addressBits(ip.family);
  return { family: ip.family, network: ip, prefixLength, text: `${ip.text}/${prefixLength}` };
}

export function cidrContains(cidr: Cidr, ip: Ip): boolean {
  if (cidr.family !== ip.family) return false;
  const hostBits = addressBits(ip.family) - cidr.prefixLength;
  // Without BigInt, because it is called for many addresses.
  if (ip.family === 'ipv4') return hostBits === 32 || (Number(ip.value) ^ Number(cidr.network.value)) >>> hostBits === 0;
  return ip.value >> BigInt(hostBits) === cidr.network.value >> BigInt(hostBits);
}

/** Returns a function like `cidrContains` for any of these networks, precomputed because it is called for a hundred thousand addresses. */
export function containedIn(cidrs: readonly Cidr[]): (ip: Ip) => boolean {
  const ofIpv4 = cidrs
    .filter(({ family, prefixLength }) => family === 'ipv4' && prefixLength > 0)
    .map(({ network, prefixLength }) => ({ network: Number(network.value), hostBits: 32 - prefixLength }));
  const others = cidrs.filter(({ family, prefixLength }) => family === 'ipv6' || prefixLength === 0);
  return (ip) => {
    if (ip.family === 'ipv4') {
      const value = Number(ip.value);
      for (const { network, hostBits } of ofIpv4) if ((value ^ network) >>> hostBits === 0) return true;
    }
    return others.length > 0 && others.some((cidr) => cidrContains(cidr, ip));
  };
}

/** Reports whether two networks have an address in common; then one contains the other. */
export function overlaps(a: Cidr, b: Cidr): boolean {
  if (a.family !== b.family) return false;
  const hostBits = BigInt(addressBits(a.family) - Math.min(a.prefixLength, b.prefixLength));
  return a.network.value >> hostBits === b.network.value >> hostBits;
}

/**
 * Returns the address `index` positions after the first one of the network.
 *
 * @throws SeineError `INVARIANT` if that is outside the network
 */
export function cidrAddress(cidr: Cidr, index: bigint): Ip {
  const ip = ipFromValue(cidr.family, cidr.network.value + index);
  if (!cidrContains(cidr, ip)) throw new SeineError('INVARIANT', `${cidr.text} has no address ${index}`);
  return ip;
}

/** Returns the 32-bit number, or -1. Works in plain numbers, byte by byte, because a hundred thousand endpoints are read at once. */
function ipv4Number(text: string): number {
  let [value, byte, digits, dots] = [0, 0, 0, 0];
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit >= 0 && digit <= 9) {
      byte = byte * 10 + digit;
      if (byte > 255 || (digits === 1 && byte < 10)) return -1;
      digits++;
    } else if (digit === DOT - ZERO && digits > 0 && ++dots <= 3) {
      value = value * 256 + byte;
      byte = 0;
      digits = 0;
    } else return -1;
  }
  return dots === 3 && digits > 0 ? value * 256 + byte : -1;
}

const ZERO = '0'.charCodeAt(0);
const DOT = '.'.charCodeAt(0);

/** Formats an address given as a number, signed or not; faster than through an `Ip`. */
export function ipv4Text(bits: number): string {
  return `${bits >>> 24}.${(bits >>> 16) & 0xff}.${(bits >>> 8) & 0xff}.${bits & 0xff}`;
}
