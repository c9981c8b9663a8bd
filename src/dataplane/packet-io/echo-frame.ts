import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';
import { ipPacket, ipProtocol, pseudoHeader } from './ip-frame.ts';

/** Ends of an echo request; the MAC addresses are of the interface that sends it and of the next hop. */
export interface EchoEnds {
  readonly from: Ip;
  readonly to: Ip;
  readonly source: Mac;
  readonly nextHop: Mac;
}

/** Types of echo requests (RFC 792, RFC 4443 section 4.1). */
const requestTypes = { ipv4: 8, ipv6: 128 } as const;
const etherTypes = { ipv4: 0x0800, ipv6: 0x86dd } as const;
const HEADER_BYTES = 8;

/** Returns a frame with an ICMP echo request. @param identifier 16 bits */
export function echoRequest({ from, to, source, nextHop }: EchoEnds, identifier: number, payload: Uint8Array): Uint8Array {
  const { family } = from;
  const ends = { family, source: ipToBytes(from), destination: ipToBytes(to) };
  const protocol = family === 'ipv4' ? ipProtocol.icmp : ipProtocol.icmp6;
  const message = Buffer.concat([Buffer.alloc(HEADER_BYTES), payload]);
  message.writeUInt8(requestTypes[family], 0);
  message.writeUInt16BE(identifier, 4);
  const covered = family === 'ipv4' ? [message] : [pseudoHeader(ends, protocol, message.length), message];
  message.writeUInt16BE(internetChecksum(...covered), 2);
  const etherType = Buffer.alloc(2);
  etherType.writeUInt16BE(etherTypes[family]);
  return Buffer.concat([macToBytes(nextHop), macToBytes(source), etherType, ipPacket(ends, protocol, message)]);
}
