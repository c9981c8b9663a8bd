import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';

/**
 * Returns an Ethernet frame that announces the MAC of an address to all neighbours, so that they do not keep sending to the previous owner:
 * an ARP announcement, or an unsolicited neighbour advertisement.
 */
export function announcement(mac: Mac, address: Ip): Uint8Array {
  return address.family === 'ipv4'
    ? arpAnnouncement(macToBytes(mac), ipToBytes(address))
    : advertisement(macToBytes(mac), ipToBytes(address));
}

/** Source: RFC 5227 section 2.3: a request whose sender and target are both the announced address. */
function arpAnnouncement(mac: Uint8Array, address: Uint8Array): Uint8Array {
  const broadcast = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
  const head = [0, 1, 0x08, 0, 6, 4, 0, 1]; // Ethernet, IPv4, lengths of both, request
  return Uint8Array.from([...broadcast, ...mac, 0x08, 0x06, ...head, ...mac, ...address, 0, 0, 0, 0, 0, 0, ...address]);
}

/** Source: RFC 4861 sections 4.4 and 7.2.6: to all nodes, override set, solicited clear, with the link-layer address. */
function advertisement(mac: Uint8Array, address: Uint8Array): Uint8Array {
  const allNodes = [0xff, 0x02, ...Array<number>(13).fill(0), 1];
  const body = Uint8Array.from([136, 0, 0, 0, 0x20, 0, 0, 0, ...address, 2, 1, ...mac]);
  const pseudoHeader = [...address, ...allNodes, 0, 0, 0, body.length, 0, 0, 0, ICMPV6];
  new DataView(body.buffer).setUint16(2, internetChecksum(Uint8Array.from(pseudoHeader), body), false);
  const header = [0x60, 0, 0, 0, 0, body.length, ICMPV6, 255, ...address, ...allNodes];
  return Uint8Array.from([0x33, 0x33, 0, 0, 0, 1, ...mac, 0x86, 0xdd, ...header, ...body]);
}

const ICMPV6 = 58;
