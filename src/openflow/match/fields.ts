import { ONF } from '../protocol.ts';

/**
 * Match fields of OpenFlow 1.3, 1.5 and Open vSwitch, one row per field.
 *
 * The order of the rows is the order in which Open vSwitch writes a match (determined by dumping flows from ovs-vswitchd 3.1), so an
 * encoder that follows the table produces the bytes of a dump. Names, numbers, widths and prerequisites are those of ovs-fields(7).
 *
 * Values: fields up to 48 bits are numbers (an IPv4 address is an unsigned 32-bit number, an Ethernet address a 48-bit one), wider fields
 * are bigints, and `tun_metadata*` are bytes, since their width is set at run time.
 */

/** Match that a field requires (ovs-fields(7) "Prerequisites"). */
export type Prerequisite =
  | 'none'
  | 'vlan'
  | 'mpls'
  | 'ip'
  | 'ipv6'
  | 'anyIp'
  | 'arp'
  | 'tcp'
  | 'udp'
  | 'sctp'
  | 'icmp'
  | 'icmpv6'
  | 'nd'
  | 'ndSolicit'
  | 'ndAdvert'
  | 'ndAny'
  | 'nsh'
  | 'pbb';

/** Form in which ovs-ofctl prints a value. */
export type FieldFormat =
  | 'decimal'
  | 'hex'
  | 'ethernet'
  | 'ipv4'
  | 'ipv6'
  | 'port'
  | 'frag'
  | 'tcpFlags'
  | 'ctState'
  | 'tunnelFlags'
  | 'packetType'
  | 'bytes';

export interface FieldRow {
  /** First 23 bits of the OXM header in OpenFlow 1.5 messages: class, field number. */
  readonly oxm: number;
  /** Vendor number of fields of class 0xffff, between header and value. */
  readonly vendor?: number;
  /** OpenFlow 1.3 also has the field, but under the number of the Open Networking Foundation. */
  readonly onfIn13?: true;
  /** The same for the older Nicira header, which `learn` and some other Nicira actions prefer. */
  readonly nxm?: number;
  readonly bytes: number;
  /** Number of bits that may be set; the rest of the bytes is zero. */
  readonly bits: number;
  /** Number of bits that a subfield may name, if lower. */
  readonly subfieldBits?: number;
  readonly maskable: boolean;
  readonly needs: Prerequisite;
  readonly format: FieldFormat;
}

const OXM_BASIC = 0x8000_0000;
const OXM_PACKET_REGISTERS = 0x8001_0000;
const OXM_EXPERIMENTER = 0xffff_0000;
const OXM_ERICSSON = 0x1000_0000;
const NXM_OF = 0x0000_0000;
const NXM_NX = 0x0001_0000;

const NICIRA_VENDOR = 0x2320;
/** Vendor number that Open vSwitch uses for the fields of the Network Service Header. */
const NSH_VENDOR = 0x005a_d650;

/** Position of the field number in a header. */
const NUMBER = 0x200;

const plain = { maskable: false, needs: 'none' } as const;
const masked = { maskable: true, needs: 'none' } as const;
const u8 = { bytes: 1, bits: 8 } as const;
const u16 = { bytes: 2, bits: 16 } as const;
const u32 = { bytes: 4, bits: 32 } as const;
const ethernet = { bytes: 6, bits: 48, format: 'ethernet' } as const;
const ipv4 = { bytes: 4, bits: 32, format: 'ipv4' } as const;
const ipv6 = { bytes: 16, bits: 128, format: 'ipv6' } as const;

function oxm(number: number) {
  return { oxm: OXM_BASIC + number * NUMBER } as const;
}

function nx(number: number) {
  return { oxm: NXM_NX + number * NUMBER } as const;
}

/** Field with a standard number and one of Nicira's first class (OpenFlow 1.0 fields). */
function oxmOf(number: number, nxmNumber: number) {
  return { oxm: OXM_BASIC + number * NUMBER, nxm: NXM_OF + nxmNumber * NUMBER } as const;
}

/** Field with a standard number and one of Nicira's own class. */
function oxmNx(number: number, nxmNumber: number) {
  return { oxm: OXM_BASIC + number * NUMBER, nxm: NXM_NX + nxmNumber * NUMBER } as const;
}

/** Field with a vendor number. Source: OpenFlow 1.5.1 section 7.2.3.9 "Experimenter Flow Match Fields". */
function vendorField(vendor: number, number: number) {
  return { oxm: OXM_EXPERIMENTER + number * NUMBER, vendor } as const;
}

function nsh(number: number) {
  return { ...vendorField(NSH_VENDOR, number), maskable: true, needs: 'nsh' } as const;
}

function reg(number: number) {
  return { ...nx(number), ...u32, ...masked, format: 'hex' } as const;
}

function xreg(number: number) {
  return { oxm: OXM_PACKET_REGISTERS + number * NUMBER, bytes: 8, bits: 64, ...masked, format: 'hex' } as const;
}

function xxreg(number: number) {
  return { ...nx(111 + number), bytes: 16, bits: 128, ...masked, format: 'hex' } as const;
}

/** Up to 124 bytes; the TLV mapping of the switch sets the length. */
function tunMetadata(number: number) {
  return { ...nx(40 + number), bytes: 124, bits: 992, ...masked, format: 'bytes' } as const;
}

type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;
type TunnelOption = `tun_metadata${Digit | `${1 | 2 | 3 | 4 | 5}${Digit}` | `6${0 | 1 | 2 | 3}`}`;

/** All 64 of them, `tun_metadata0` first. */
const tunnelOptions = Object.fromEntries(Array.from({ length: 64 }, (_, number) => [`tun_metadata${number}`, tunMetadata(number)])) as {
  readonly [N in TunnelOption]: ReturnType<typeof tunMetadata>; // `fromEntries` loses the names
};

export const fields = {
  packet_type: { ...oxm(44), ...u32, ...plain, format: 'packetType' },
  dp_hash: { ...nx(35), ...u32, ...masked, format: 'hex' },
  recirc_id: { ...nx(36), ...u32, ...plain, format: 'hex' },
  conj_id: { ...nx(37), ...u32, ...plain, format: 'decimal' },
  in_port: { ...oxm(0), ...u32, ...plain, format: 'port' },
  /** 16-bit port of OpenFlow 1.0, which `learn`, `move` and NXT_PACKET_IN still use. */
  in_port_16: { oxm: NXM_OF, ...u16, ...plain, format: 'port' },
  in_phy_port: { ...oxm(1), ...u32, ...plain, format: 'port' },
  actset_output: { ...oxm(43), onfIn13: true, ...u32, ...plain, format: 'port' },
  eth_src: { ...oxmOf(4, 2), ...ethernet, ...masked },
  eth_dst: { ...oxmOf(3, 1), ...ethernet, ...masked },
  eth_type: { ...oxmOf(5, 3), ...u16, ...plain, format: 'hex' },
  /** Twelve bits of VLAN identifier below 0x1000, the bit for the presence of a tag. */
  vlan_vid: { ...oxm(6), bytes: 2, bits: 13, subfieldBits: 12, ...masked, format: 'decimal' },
  vlan_pcp: { ...oxm(7), bytes: 1, bits: 3, maskable: false, needs: 'vlan', format: 'decimal' },
  mpls_tc: { ...oxm(35), bytes: 1, bits: 3, maskable: false, needs: 'mpls', format: 'decimal' },
  mpls_bos: { ...oxm(36), bytes: 1, bits: 1, maskable: false, needs: 'mpls', format: 'decimal' },
  mpls_ttl: { ...nx(30), ...u8, maskable: false, needs: 'mpls', format: 'decimal' },
  mpls_label: { ...oxm(34), bytes: 4, bits: 20, maskable: false, needs: 'mpls', format: 'decimal' },
  pbb_isid: { ...oxm(37), bytes: 3, bits: 24, maskable: true, needs: 'pbb', format: 'hex' },
  pbb_uca: { ...oxm(41), bytes: 1, bits: 1, maskable: false, needs: 'pbb', format: 'decimal' },
  ip_src: { ...oxmOf(11, 7), ...ipv4, maskable: true, needs: 'ip' },
  ip_dst: { ...oxmOf(12, 8), ...ipv4, maskable: true, needs: 'ip' },
  ipv6_src: { ...oxmNx(26, 19), ...ipv6, maskable: true, needs: 'ipv6' },
  ipv6_dst: { ...oxmNx(27, 20), ...ipv6, maskable: true, needs: 'ipv6' },
  /** Bit 0: a fragment; bit 1: not the first one. */
  ip_frag: { ...nx(26), bytes: 1, bits: 2, maskable: true, needs: 'anyIp', format: 'frag' },
  ip_dscp: { ...oxm(8), bytes: 1, bits: 6, maskable: false, needs: 'anyIp', format: 'decimal' },
  ip_ecn: { ...oxmNx(9, 28), bytes: 1, bits: 2, maskable: false, needs: 'anyIp', format: 'decimal' },
  nw_ttl: { ...nx(29), ...u8, maskable: false, needs: 'anyIp', format: 'decimal' },
  ipv6_label: { ...oxmNx(28, 27), bytes: 4, bits: 20, maskable: true, needs: 'ipv6', format: 'hex' },
  ipv6_exthdr: { ...oxm(39), bytes: 2, bits: 9, maskable: true, needs: 'ipv6', format: 'hex' },
  ip_proto: { ...oxmOf(10, 6), ...u8, maskable: false, needs: 'anyIp', format: 'decimal' },
  tcp_src: { ...oxmOf(13, 9), ...u16, maskable: true, needs: 'tcp', format: 'decimal' },
  tcp_dst: { ...oxmOf(14, 10), ...u16, maskable: true, needs: 'tcp', format: 'decimal' },
  tcp_flags: { ...oxmNx(42, 34), onfIn13: true, bytes: 2, bits: 12, maskable: true, needs: 'tcp', format: 'tcpFlags' },
  udp_src: { ...oxmOf(15, 11), ...u16, maskable: true, needs: 'udp', format: 'decimal' },
  udp_dst: { ...oxmOf(16, 12), ...u16, maskable: true, needs: 'udp', format: 'decimal' },
  sctp_src: { ...oxm(17), ...u16, maskable: true, needs: 'sctp', format: 'decimal' },
  sctp_dst: { ...oxm(18), ...u16, maskable: true, needs: 'sctp', format: 'decimal' },
  icmp_type: { ...oxmOf(19, 13), ...u8, maskable: false, needs: 'icmp', format: 'decimal' },
  icmp_code: { ...oxmOf(20, 14), ...u8, maskable: false, needs: 'icmp', format: 'decimal' },
  icmpv6_type: { ...oxmNx(29, 21), ...u8, maskable: false, needs: 'icmpv6', format: 'decimal' },
  icmpv6_code: { ...oxmNx(30, 22), ...u8, maskable: false, needs: 'icmpv6', format: 'decimal' },
  nd_reserved: { oxm: OXM_ERICSSON + NUMBER, ...u32, maskable: false, needs: 'ndAny', format: 'decimal' },
  nd_target: { ...oxmNx(31, 23), ...ipv6, maskable: true, needs: 'nd' },
  nd_options_type: { oxm: OXM_ERICSSON + 2 * NUMBER, ...u8, maskable: false, needs: 'ndAny', format: 'decimal' },
  nd_sll: { ...oxmNx(32, 24), ...ethernet, maskable: true, needs: 'ndSolicit' },
  nd_tll: { ...oxmNx(33, 25), ...ethernet, maskable: true, needs: 'ndAdvert' },
  arp_op: { ...oxmOf(21, 15), ...u16, maskable: false, needs: 'arp', format: 'decimal' },
  arp_spa: { ...oxmOf(22, 16), ...ipv4, maskable: true, needs: 'arp' },
  arp_tpa: { ...oxmOf(23, 17), ...ipv4, maskable: true, needs: 'arp' },
  arp_sha: { ...oxmNx(24, 17), ...ethernet, maskable: true, needs: 'arp' },
  arp_tha: { ...oxmNx(25, 18), ...ethernet, maskable: true, needs: 'arp' },
  tun_id: { ...oxmNx(38, 16), bytes: 8, bits: 64, ...masked, format: 'hex' },
  tun_flags: { ...nx(104), bytes: 2, bits: 1, ...masked, format: 'tunnelFlags' },
  tun_src: { ...nx(31), ...ipv4, ...masked },
  tun_dst: { ...nx(32), ...ipv4, ...masked },
  tun_ipv6_src: { ...nx(109), ...ipv6, ...masked },
  tun_ipv6_dst: { ...nx(110), ...ipv6, ...masked },
  tun_gbp_id: { ...nx(38), ...u16, ...masked, format: 'decimal' },
  tun_gbp_flags: { ...nx(39), ...u8, ...masked, format: 'hex' },
  ...tunnelOptions,
  tun_erspan_idx: { ...vendorField(NICIRA_VENDOR, 11), bytes: 4, bits: 20, ...masked, format: 'hex' },
  tun_erspan_ver: { ...vendorField(NICIRA_VENDOR, 12), bytes: 1, bits: 4, ...masked, format: 'decimal' },
  tun_erspan_dir: { ...vendorField(NICIRA_VENDOR, 13), bytes: 1, bits: 1, ...masked, format: 'decimal' },
  tun_erspan_hwid: { ...vendorField(NICIRA_VENDOR, 14), bytes: 1, bits: 6, ...masked, format: 'hex' },
  tun_gtpu_flags: { ...vendorField(NICIRA_VENDOR, 15), ...u8, ...masked, format: 'hex' },
  tun_gtpu_msgtype: { ...vendorField(NICIRA_VENDOR, 16), ...u8, ...masked, format: 'decimal' },
  nsh_flags: { ...nsh(1), ...u8, format: 'decimal' },
  nsh_ttl: { ...nsh(10), ...u8, maskable: false, format: 'decimal' },
  nsh_mdtype: { ...nsh(2), ...u8, maskable: false, format: 'decimal' },
  nsh_np: { ...nsh(3), ...u8, maskable: false, format: 'decimal' },
  nsh_spi: { ...nsh(4), bytes: 4, bits: 24, maskable: false, format: 'hex' },
  nsh_si: { ...nsh(5), ...u8, maskable: false, format: 'decimal' },
  nsh_c1: { ...nsh(6), ...u32, format: 'hex' },
  nsh_c2: { ...nsh(7), ...u32, format: 'hex' },
  nsh_c3: { ...nsh(8), ...u32, format: 'hex' },
  nsh_c4: { ...nsh(9), ...u32, format: 'hex' },
  reg0: reg(0),
  reg1: reg(1),
  reg2: reg(2),
  reg3: reg(3),
  reg4: reg(4),
  reg5: reg(5),
  reg6: reg(6),
  reg7: reg(7),
  reg8: reg(8),
  reg9: reg(9),
  reg10: reg(10),
  reg11: reg(11),
  reg12: reg(12),
  reg13: reg(13),
  reg14: reg(14),
  reg15: reg(15),
  xreg0: xreg(0),
  xreg1: xreg(1),
  xreg2: xreg(2),
  xreg3: xreg(3),
  xreg4: xreg(4),
  xreg5: xreg(5),
  xreg6: xreg(6),
  xreg7: xreg(7),
  xxreg0: xxreg(0),
  xxreg1: xxreg(1),
  xxreg2: xxreg(2),
  xxreg3: xxreg(3),
  pkt_mark: { ...nx(33), ...u32, ...masked, format: 'hex' },
  ct_state: { ...nx(105), ...u32, ...masked, format: 'ctState' },
  ct_zone: { ...nx(106), ...u16, ...plain, format: 'hex' },
  ct_mark: { ...nx(107), ...u32, ...masked, format: 'hex' },
  ct_label: { ...nx(108), bytes: 16, bits: 128, ...masked, format: 'hex' },
  ct_nw_src: { ...nx(120), ...ipv4, maskable: true, needs: 'ip' },
  ct_nw_dst: { ...nx(121), ...ipv4, maskable: true, needs: 'ip' },
  ct_ipv6_src: { ...nx(122), ...ipv6, maskable: true, needs: 'ipv6' },
  ct_ipv6_dst: { ...nx(123), ...ipv6, maskable: true, needs: 'ipv6' },
  ct_nw_proto: { ...nx(119), ...u8, maskable: false, needs: 'anyIp', format: 'decimal' },
  ct_tp_src: { ...nx(124), ...u16, maskable: true, needs: 'anyIp', format: 'decimal' },
  ct_tp_dst: { ...nx(125), ...u16, maskable: true, needs: 'anyIp', format: 'decimal' },
  metadata: { ...oxm(2), bytes: 8, bits: 64, ...masked, format: 'hex' },
  /** Never part of a match that OpenFlow 1.5 carries: `encodeMatch` converts it into `vlan_vid` and `vlan_pcp`. */
  vlan_tci: { oxm: NXM_OF + 4 * NUMBER, ...u16, ...masked, format: 'hex' },
  nw_tos: { oxm: NXM_OF + 5 * NUMBER, ...u8, maskable: false, needs: 'anyIp', format: 'decimal' },
} as const satisfies Readonly<Record<string, FieldRow>>;

export type FieldName = keyof typeof fields;

/** Number up to 48 bits, bigint above, bytes for tunnel metadata. */
export type FieldValue<F extends FieldName = FieldName> = F extends FieldName
  ? (typeof fields)[F]['bits'] extends 64 | 128
    ? bigint
    : (typeof fields)[F]['bits'] extends 992
      ? Uint8Array
      : number
  : never;

/** Range of bits of a field, for moves, registers of output and learned flows. `offset` counts from the lowest bit. */
export interface Subfield {
  readonly field: FieldName;
  readonly offset: number;
  readonly bits: number;
}

/** Row with its name, its position in the order of a match, and its encoded headers. */
export interface Field {
  readonly name: FieldName;
  readonly order: number;
  readonly oxm: number;
  readonly nxm: number | undefined;
  /** 0 for fields without a vendor. */
  readonly vendor: number;
  readonly bytes: number;
  readonly bits: number;
  readonly subfieldBits: number;
  readonly maskable: boolean;
  readonly needs: Prerequisite;
  readonly format: FieldFormat;
  readonly exactHeader: number;
  readonly maskedHeader: number;
  readonly nxmHeader: number;
  /** All bits that may be set, for fields up to 48 bits and for wider ones. */
  readonly fullNumber: number;
  readonly fullBigint: bigint;
  /** Registers: the first of the 32-bit words that it covers; -1 for other fields. */
  readonly firstWord: number;
  /** Form in OpenFlow 1.3: usually this object itself. */
  readonly in13: Field;
}

const headerHasMask = 0x100;

function fieldOf(name: FieldName, order: number): Field {
  const row: FieldRow = fields[name];
  if (!row.onfIn13) return withHeaders(name, order, row);
  return withHeaders(name, order, row, withHeaders(name, order, { ...row, oxm: OXM_EXPERIMENTER + (row.oxm & 0xfe00), vendor: ONF }));
}

/** Names every member, so that all fields have the same shape: the encoder reads several members of each field that it writes. */
function withHeaders(name: FieldName, order: number, row: FieldRow, in13?: Field): Field {
  const vendorBytes = row.vendor === undefined ? 0 : 4;
  const field: Omit<Field, 'in13'> & { in13: Field | undefined } = {
    name,
    order,
    oxm: row.oxm,
    nxm: row.nxm,
    vendor: row.vendor ?? 0,
    bytes: row.bytes,
    bits: row.bits,
    subfieldBits: row.subfieldBits ?? row.bits,
    maskable: row.maskable,
    needs: row.needs,
    format: row.format,
    exactHeader: row.oxm + row.bytes + vendorBytes,
    maskedHeader: row.oxm + headerHasMask + ((row.bytes * 2 + vendorBytes) & 0xff),
    nxmHeader: (row.nxm ?? row.oxm) + row.bytes + vendorBytes,
    fullNumber: row.bits <= 48 ? 2 ** row.bits - 1 : 0,
    fullBigint: (1n << BigInt(row.bits)) - 1n,
    firstWord: firstWordOf(name, row.bytes),
    in13,
  };
  field.in13 ??= field as Field; // it is its own form in OpenFlow 1.3
  return field as Field;
}

function firstWordOf(name: FieldName, bytes: number): number {
  const number = /^x{0,2}reg(\d+)$/.exec(name)?.[1];
  return number === undefined ? -1 : (Number(number) * bytes) / 4;
}

const byName = new Map<string, Field>();
const byId = new Map<number, Field>();
const byVendor = new Map<number, Field>();

/** All fields, in the order of a match. */
export const fieldsInOrder: readonly Field[] = (Object.keys(fields) as FieldName[]).map(fieldOf);

for (const field of fieldsInOrder) {
  byName.set(field.name, field);
  if (field.vendor !== 0) byVendor.set(vendorKey(field.oxm, field.vendor), field);
  // The standard header takes precedence where a Nicira number was used twice.
  else if (!byId.has(field.oxm)) byId.set(field.oxm, field);
  if (field.in13 !== field) byVendor.set(vendorKey(field.in13.oxm, field.in13.vendor), field.in13);
}
for (const field of fieldsInOrder) {
  if (field.nxm !== undefined && !byId.has(field.nxm)) byId.set(field.nxm, field);
}

export function fieldNamed(name: string): Field | undefined {
  return byName.get(name);
}

/** @param header an OXM or NXM header; its mask bit and length do not matter */
export function fieldWithHeader(header: number): Field | undefined {
  return byId.get(header - (header % NUMBER));
}

/** @param header an OXM header of class 0xffff */
export function fieldOfVendor(header: number, vendor: number): Field | undefined {
  return byVendor.get(vendorKey(header, vendor));
}

function vendorKey(header: number, vendor: number): number {
  return vendor * 0x80 + ((header >>> 9) & 0x7f);
}
