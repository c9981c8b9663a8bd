import { port32 } from '../actions/codec.ts';
import type { FieldName } from '../match/fields.ts';
import type { Match } from '../match/match.ts';
import { type AnyValue, isMasked, type Masked, requireField } from '../match/oxm.ts';
import {
  ctStateFlags,
  fragmentWord,
  hexOfBytes,
  hexOrZero,
  hexText,
  printFlags,
  printFlagsMasked,
  printIpv4Masked,
  printIpv6Masked,
  printMac,
  printPort,
  type TextNames,
  tcpFlags,
  tunnelFlags,
} from './value-text.ts';

/**
 * Prints the parts of a match like `ovs-ofctl dump-flows`, to be joined with commas. A match of everything has none.
 *
 * The order and the abbreviations (`tcp`, `nw_src`, `tp_dst`, …) are those of the tool: ovs-ofctl(8) "Flow Syntax".
 */
export function printMatch(match: Match, names: TextNames = {}): string[] {
  const p = new MatchPrinter(match, names);
  p.print();
  return p.parts;
}

interface Shorthand {
  readonly word: string;
  readonly protocol?: number;
}

const ipShorthands: readonly Shorthand[] = [
  { word: 'icmp', protocol: 1 },
  { word: 'tcp', protocol: 6 },
  { word: 'udp', protocol: 17 },
  { word: 'sctp', protocol: 132 },
  { word: 'ip' },
];
const ipv6Shorthands: readonly Shorthand[] = [
  { word: 'icmp6', protocol: 58 },
  { word: 'tcp6', protocol: 6 },
  { word: 'udp6', protocol: 17 },
  { word: 'sctp6', protocol: 132 },
  { word: 'ipv6' },
];

/** Words for an Ethernet type, some of them with an IP protocol. */
export const shorthands = new Map<number, readonly Shorthand[]>([
  [0x0800, ipShorthands],
  [0x86dd, ipv6Shorthands],
  [0x0806, [{ word: 'arp' }]],
  [0x8035, [{ word: 'rarp' }]],
  [0x8847, [{ word: 'mpls' }]],
  [0x8848, [{ word: 'mplsm' }]],
]);

const beforeType = ['pkt_mark', 'recirc_id', 'dp_hash', 'conj_id', 'actset_output', 'ct_state', 'ct_zone', 'ct_mark', 'ct_label'] as const;
const tracked = ['ct_nw_src', 'ct_ipv6_src', 'ct_nw_dst', 'ct_ipv6_dst', 'ct_nw_proto', 'ct_tp_src', 'ct_tp_dst'] as const;
const registers = Array.from({ length: 16 }, (_, index) => `reg${index}` as FieldName);
const tunnel = ['tun_id', 'tun_src', 'tun_dst', 'tun_ipv6_src', 'tun_ipv6_dst', 'tun_gbp_id', 'tun_gbp_flags'] as const;
const erspan = ['tun_erspan_ver', 'tun_erspan_idx', 'tun_erspan_dir', 'tun_erspan_hwid'] as const;
const gtpu = ['tun_gtpu_flags', 'tun_gtpu_msgtype'] as const;
const nsh = ['nsh_flags', 'nsh_ttl', 'nsh_mdtype', 'nsh_np', 'nsh_spi', 'nsh_si', 'nsh_c1', 'nsh_c2', 'nsh_c3', 'nsh_c4'] as const;
/** Fields whose masks the tool omits. */
const maskless: ReadonlySet<FieldName> = new Set<FieldName>(['tun_gbp_flags', ...erspan, ...gtpu]);
const tunnelOptions = Array.from({ length: 64 }, (_, index) => `tun_metadata${index}` as FieldName);
const mplsFields = ['mpls_label', 'mpls_tc', 'mpls_ttl', 'mpls_bos'] as const;
const last = [
  'icmp_type',
  'icmp_code',
  'icmpv6_type',
  'icmpv6_code',
  'nd_target',
  'nd_sll',
  'nd_tll',
  'nd_reserved',
  'nd_options_type',
] as const;
/** Fields that Open vSwitch does not have, and so have no position. */
const foreign = ['ipv6_exthdr', 'pbb_isid', 'pbb_uca'] as const;

/** Names of fields in a match in the tool, if they differ from ours. */
const words: Readonly<Partial<Record<FieldName, string>>> = {
  eth_src: 'dl_src',
  eth_dst: 'dl_dst',
  ip_src: 'nw_src',
  ip_dst: 'nw_dst',
  ip_ecn: 'nw_ecn',
  tcp_src: 'tp_src',
  tcp_dst: 'tp_dst',
  udp_src: 'tp_src',
  udp_dst: 'tp_dst',
  sctp_src: 'tp_src',
  sctp_dst: 'tp_dst',
  icmpv6_type: 'icmp_type',
  icmpv6_code: 'icmp_code',
  in_port_16: 'in_port',
  tun_gtpu_flags: 'gtpu_flags',
  tun_gtpu_msgtype: 'gtpu_msgtype',
};

class MatchPrinter {
  readonly parts: string[] = [];
  readonly #match: Match;
  readonly #names: TextNames;

  constructor(match: Match, names: TextNames) {
    this.#match = match;
    this.#names = names;
  }

  print(): void {
    const shorthand = this.#shorthand();
    this.#packetType();
    this.#fields(beforeType);
    this.#fields(tracked);
    if (shorthand !== undefined) this.parts.push(shorthand.word);
    this.#fields(registers);
    this.#fields([...tunnel, ...erspan, ...gtpu, 'tun_flags']);
    this.#fields(tunnelOptions);
    this.#fields(['metadata', 'in_port', 'in_port_16', 'in_phy_port']);
    this.#vlan();
    this.#fields(['eth_src', 'eth_dst']);
    const { eth_type: type, ip_proto: protocol } = this.#match;
    if (shorthand === undefined && typeof type === 'number') this.parts.push(`dl_type=0x${type.toString(16).padStart(4, '0')}`);
    this.#fields(nsh);
    this.#fields(['ip_src', 'ip_dst', 'ipv6_src', 'ipv6_dst', 'ipv6_label', 'arp_spa', 'arp_tpa']);
    if (shorthand?.protocol === undefined && typeof protocol === 'number') this.parts.push(`nw_proto=${protocol}`);
    this.#fields(['arp_op', 'arp_sha', 'arp_tha']);
    this.#tos();
    this.#fields(['ip_ecn', 'nw_ttl', ...mplsFields]);
    this.#fragment();
    this.#fields(['tcp_src', 'tcp_dst', 'udp_src', 'udp_dst', 'sctp_src', 'sctp_dst', ...last, 'tcp_flags', ...foreign]);
    if (this.#match.unknown !== undefined) this.parts.push(`unknown=0x${hexText(this.#match.unknown, '')}`);
  }

  #shorthand(): Shorthand | undefined {
    const { eth_type: type, ip_proto: protocol } = this.#match;
    if (typeof type !== 'number') return undefined;
    return shorthands.get(type)?.find((each) => each.protocol === undefined || each.protocol === protocol);
  }

  #packetType(): void {
    const type = this.#match.packet_type;
    if (typeof type === 'number') this.parts.push(`packet_type=(${type >>> 16},${hexOrZero(type & 0xffff)})`);
  }

  #fields(fields: readonly FieldName[]): void {
    for (const name of fields) {
      const given = this.#match[name];
      if (given !== undefined) this.parts.push(`${words[name] ?? name}=${this.#value(name, given)}`);
    }
  }

  #value(name: FieldName, given: AnyValue | Masked<AnyValue>): string {
    const { value, mask } = isMasked(given) ? given : { value: given, mask: undefined };
    if (typeof value === 'object') return hexOfBytes(value) + (mask instanceof Uint8Array ? `/${hexOfBytes(mask)}` : '');
    if (typeof value === 'bigint') return this.#wide(name, value, typeof mask === 'bigint' ? mask : undefined);
    return this.#number(name, value, typeof mask === 'number' ? mask : undefined);
  }

  #wide(name: FieldName, value: bigint, mask: bigint | undefined): string {
    if (requireField(name).format === 'ipv6') return printIpv6Masked(value, mask ?? (1n << 128n) - 1n);
    return hexOrZero(value) + (mask === undefined ? '' : `/${hexOrZero(mask)}`);
  }

  #number(name: FieldName, value: number, mask: number | undefined): string {
    const { format } = requireField(name);
    switch (format) {
      case 'ethernet':
        return printMac(value) + (mask === undefined ? '' : `/${printMac(mask)}`);
      case 'ipv4':
        return printIpv4Masked(value, mask ?? 0xffff_ffff);
      case 'port':
        return printPort(name === 'in_port_16' ? port32(value) : value, this.#names);
      case 'ctState':
        return mask === undefined ? printFlags(ctStateFlags, value) : printFlagsMasked(ctStateFlags, value, mask);
      case 'tunnelFlags':
        return printFlagsMasked(tunnelFlags, value, mask ?? 1);
      case 'tcpFlags':
        return mask === undefined ? printFlags(tcpFlags, value) : printFlagsMasked(tcpFlags, value, mask);
      default:
        return this.#plain(name, value, mask);
    }
  }

  /** The tool prints numbers of 16 bits with another routine than wider ones: zero is `0x0`. */
  #plain(name: FieldName, value: number, mask: number | undefined): string {
    const { format, bytes } = requireField(name);
    if (maskless.has(name)) return format === 'hex' ? hexOrZero(value) : String(value);
    if (name === 'ipv6_label') return printLabel(value) + (mask === undefined ? '' : `/${printLabel(mask)}`);
    if (mask === undefined) return format === 'hex' && name !== 'ct_zone' ? hexOrZero(value) : String(value);
    return bytes === 2 ? `0x${value.toString(16)}/0x${mask.toString(16)}` : `${hexOrZero(value)}/${hexOrZero(mask)}`;
  }

  /** Prints `dl_vlan` if the tag is present and each part is matched whole or not at all; otherwise `vlan_tci`. */
  #vlan(): void {
    const { vlan_vid: given, vlan_pcp: pcp } = this.#match;
    if (given === undefined) return;
    const { value, mask } = isMasked(given) ? given : { value: given, mask: 0x1fff };
    const priority = typeof pcp === 'number' ? pcp : undefined;
    const vidMask = mask & 0xfff;
    const isTagged = (mask & value & 0x1000) !== 0;
    if (isTagged && (vidMask === 0xfff || (vidMask === 0 && priority !== undefined))) {
      if (vidMask !== 0) this.parts.push(`dl_vlan=${value & 0xfff}`);
      if (priority !== undefined) this.parts.push(`dl_vlan_pcp=${priority}`);
      return;
    }
    const tci = value + (priority ?? 0) * 0x2000;
    const tciMask = mask + (priority === undefined ? 0 : 0xe000);
    const hex4 = (each: number) => `0x${each.toString(16).padStart(4, '0')}`;
    this.parts.push(`vlan_tci=${hex4(tci)}${tciMask === 0xffff ? '' : `/${hex4(tciMask)}`}`);
  }

  #tos(): void {
    const dscp = this.#match.ip_dscp;
    if (typeof dscp === 'number') this.parts.push(`nw_tos=${dscp * 4}`);
  }

  #fragment(): void {
    const given = this.#match.ip_frag;
    if (given === undefined) return;
    const { value, mask } = isMasked(given) ? given : { value: given, mask: 3 };
    this.parts.push(`nw_frag=${fragmentWord(value, mask)}`);
  }
}

/** Twenty bits. */
function printLabel(value: number): string {
  return `0x${value.toString(16).padStart(5, '0')}`;
}
