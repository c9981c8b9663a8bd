/** Eight numbers of 16 bits, in the order of the text. */
export type Ipv6Groups = Uint16Array;

const ZERO = '0'.charCodeAt(0);
const LOWER_A = 'a'.charCodeAt(0);
const COLON = ':'.charCodeAt(0);
const DOT = '.'.charCodeAt(0);
const GROUPS = 8;

/** Groups before and after `::`, reused by every call: a hundred thousand addresses are read at once. */
const read = new Uint16Array(GROUPS + 1);

/**
 * Reads an IPv6 address, also one that ends in an IPv4 address. Works on character codes: addresses of users are many.
 *
 * @param ipv4Number reads the IPv4 address at the end; -1 if it is not one
 * @returns undefined if the text is not an address
 */
export function ipv6GroupsOf(text: string, ipv4Number: (text: string) => number): Ipv6Groups | undefined {
  let [count, gap, value, digits] = [0, -1, 0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === COLON) {
      const isGap = text.charCodeAt(at + 1) === COLON;
      if (digits > 0) {
        if (count === GROUPS) return undefined;
        read[count++] = value;
        [value, digits] = [0, 0];
      } else if (!isGap || at > 0) return undefined;
      if (isGap) {
        if (gap >= 0) return undefined;
        gap = count;
        at++;
      } else if (at + 1 === text.length) return undefined;
      continue;
    }
    const digit = hexDigit(code);
    if (digit < 0) {
      if (code !== DOT) return undefined;
      const number = ipv4Number(text.slice(at - digits));
      if (number < 0 || digits === 0 || count > GROUPS - 2) return undefined;
      read[count++] = number >>> 16;
      read[count++] = number & 0xffff;
      return placed(count, gap);
    }
    if (++digits > 4) return undefined;
    value = (value << 4) | digit;
  }
  if (digits > 0) {
    if (count === GROUPS) return undefined;
    read[count++] = value;
  }
  return placed(count, gap);
}

function hexDigit(code: number): number {
  const digit = code - ZERO;
  if (digit >= 0 && digit <= 9) return digit;
  const letter = (code | 0x20) - LOWER_A;
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

/** Moves the groups after `::` to the end. */
function placed(count: number, gap: number): Ipv6Groups | undefined {
  if (gap < 0 ? count !== GROUPS : count >= GROUPS) return undefined;
  const groups = new Uint16Array(GROUPS);
  for (let at = 0; at < count; at++) groups[gap < 0 || at < gap ? at : at + GROUPS - count] = read[at] ?? 0;
  return groups;
}

/**
 * Formats by RFC 5952 section 4: lower case, no leading zeros, the longest run (the first if equal, at least two) of zero groups as `::`.
 */
export function ipv6Text(groups: Ipv6Groups): string {
  let [bestStart, bestLength] = [-1, 1];
  for (let start = 0; start < GROUPS; start++) {
    let length = 0;
    while (start + length < GROUPS && groups[start + length] === 0) length++;
    if (length > bestLength) [bestStart, bestLength] = [start, length];
    start += length;
  }
  let text = '';
  for (let at = 0; at < GROUPS; at++) {
    if (at === bestStart) {
      text += '::';
      at += bestLength - 1;
    } else text += `${at === 0 || at === bestStart + bestLength ? '' : ':'}${(groups[at] ?? 0).toString(16)}`;
  }
  return text;
}

/** The eight groups as a number of 128 bits, reused by every call. */
const words = new DataView(new ArrayBuffer(2 * GROUPS));

export function ipv6ValueOf(groups: Ipv6Groups): bigint {
  for (let at = 0; at < GROUPS; at++) words.setUint16(2 * at, groups[at] ?? 0);
  return (words.getBigUint64(0) << 64n) | words.getBigUint64(8);
}

export function ipv6GroupsOfValue(value: bigint): Ipv6Groups {
  words.setBigUint64(0, value >> 64n);
  words.setBigUint64(8, BigInt.asUintN(64, value));
  const groups = new Uint16Array(GROUPS);
  for (let at = 0; at < GROUPS; at++) groups[at] = words.getUint16(2 * at);
  return groups;
}
