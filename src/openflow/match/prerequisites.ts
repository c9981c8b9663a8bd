import { type FieldName, fields, fieldsInOrder, type Prerequisite } from './fields.ts';
import type { AnyValue, Masked } from './oxm.ts';

/** Values of a match, by the field's position in the order of a match. */
type Slots = readonly (AnyValue | Masked<AnyValue> | undefined)[];

const ETH_IP = 0x0800;
const ETH_IPV6 = 0x86dd;
const ETH_ARP = 0x0806;
const ETH_RARP = 0x8035;
const ETH_MPLS = 0x8847;
const ETH_MPLS_MULTICAST = 0x8848;
const ETH_NSH = 0x894f;
const ETH_PBB = 0x88e7;
const ND_SOLICIT = 135;
const ND_ADVERT = 136;

/** One bit per prerequisite, so that a match is checked once and not once per field. */
const bit: Readonly<Record<Prerequisite, number>> = {
  none: 0,
  vlan: 1,
  mpls: 2,
  ip: 4,
  ipv6: 8,
  anyIp: 16,
  arp: 32,
  tcp: 64,
  udp: 128,
  sctp: 256,
  icmp: 512,
  icmpv6: 1024,
  nd: 2048,
  ndSolicit: 4096,
  ndAdvert: 8192,
  ndAny: 16_384,
  nsh: 32_768,
  pbb: 65_536,
};

/** Bit of the prerequisite of each field, by its position in the order of a match. */
export const neededBits = Int32Array.from(fieldsInOrder, ({ needs }) => bit[needs]);

const names = Object.keys(fields);

function placeOf(name: FieldName): number {
  return names.indexOf(name);
}

const vlanVid = placeOf('vlan_vid');
const ethType = placeOf('eth_type');
const packetType = placeOf('packet_type');
const ipProto = placeOf('ip_proto');
const icmpv6Type = placeOf('icmpv6_type');

/** Returns the bits of all prerequisites that the match fulfils. */
export function bitsMet(slots: Slots): number {
  const vlan = slots[vlanVid] === undefined ? 0 : bit.vlan;
  switch (etherType(slots)) {
    case ETH_IP:
      return vlan | bit.ip | bit.anyIp | protocolMet(slots[ipProto], bit.icmp, 1);
    case ETH_IPV6:
      return vlan | bit.ipv6 | bit.anyIp | protocolMet(slots[ipProto], bit.icmpv6, 58) | neighbourMet(slots);
    case ETH_ARP:
    case ETH_RARP:
      return vlan | bit.arp;
    case ETH_MPLS:
    case ETH_MPLS_MULTICAST:
      return vlan | bit.mpls;
    case ETH_NSH:
      return vlan | bit.nsh;
    case ETH_PBB:
      return vlan | bit.pbb;
    default:
      return vlan;
  }
}

function protocolMet(protocol: Slots[number], icmpBit: number, icmpProtocol: number): number {
  switch (protocol) {
    case 6:
      return bit.tcp;
    case 17:
      return bit.udp;
    case 132:
      return bit.sctp;
    case icmpProtocol:
      return icmpBit;
    default:
      return 0;
  }
}

function neighbourMet(slots: Slots): number {
  if (slots[ipProto] !== 58) return 0;
  if (slots[icmpv6Type] === ND_SOLICIT) return bit.nd | bit.ndAny | bit.ndSolicit;
  return slots[icmpv6Type] === ND_ADVERT ? bit.nd | bit.ndAny | bit.ndAdvert : 0;
}

/** A packet type of the Ethernet-type namespace gives the Ethernet type (packets without an Ethernet header). */
function etherType(slots: Slots): unknown {
  if (slots[ethType] !== undefined) return slots[ethType];
  const type = slots[packetType];
  return typeof type === 'number' && type >>> 16 === 1 ? type & 0xffff : undefined;
}
