import { type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';
import { icmpError, ipProtocol } from './ip-frame.ts';
import { isOneHost, type QuotablePacket, readQuotable } from './quotable-packet.ts';

/**
 * ICMP time exceeded about a packet whose TTL or hop limit ended. Pure: frames in, frames out. A packet may be cut short behind its headers.
 *
 * Sources: RFC 792 "Time Exceeded Message", RFC 1812 sections 4.3.2.7 and 5.3.1; RFC 4443 sections 2.4 (e) and 3.3.
 */

const exceeded: Readonly<Record<Family, { readonly type: number; readonly code: number }>> = {
  ipv4: { type: 11, code: 0 },
  ipv6: { type: 3, code: 0 },
};

/** Types of ICMP errors and redirects, about which no error is sent. Source: RFC 1122 section 3.2.2. */
const errorTypes: ReadonlySet<number> = new Set([3, 4, 5, 11, 12]);
/** First type of ICMPv6 that is not an error, and redirects. Source: RFC 4443 section 2.1, RFC 4861 section 4.5. */
const icmp6 = { firstQuery: 128, redirect: 137 } as const;

/** Hop that answers. */
interface Hop {
  readonly mac: Mac;
  /** At most one address of each family. */
  readonly addresses: readonly Ip[];
}

/**
 * @param nextHop MAC to which the answer is sent
 * @returns undefined where no error may be sent: about errors, fragments other than the first, packets to or from several hosts
 */
export function timeExceeded(frame: Uint8Array, hop: Hop, nextHop: Mac): Uint8Array | undefined {
  const expired = readQuotable(frame);
  const address = expired && hop.addresses.find(({ family }) => family === expired.family);
  if (!address || !isAnswered(expired)) return undefined;
  const ends = { family: expired.family, source: ipToBytes(address), destination: expired.source };
  const answer = icmpError(ends, exceeded[expired.family], expired.bytes);
  return Buffer.concat([macToBytes(nextHop), macToBytes(hop.mac), expired.etherType, answer]);
}

function isAnswered(expired: QuotablePacket): boolean {
  return isOneHost(expired.family, expired.source) && isOneHost(expired.family, expired.destination) && !isError(expired);
}

/** Also reports packets that do not show their type. */
function isError({ family, protocol, payload }: QuotablePacket): boolean {
  if (protocol !== (family === 'ipv4' ? ipProtocol.icmp : ipProtocol.icmp6)) return false;
  if (payload.length === 0) return true;
  const type = payload.readUInt8(0);
  return family === 'ipv4' ? errorTypes.has(type) : type < icmp6.firstQuery || type === icmp6.redirect;
}
