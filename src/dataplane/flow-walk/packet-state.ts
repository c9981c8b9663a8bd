import type { Family, Ip } from '../../base/net/ip.ts';
import { type FieldName, fields, type Subfield } from '../../openflow/match/fields.ts';

/** Fields that the walk knows, 32-bit words each, the most significant word first. `xreg` and `xxreg` are views of the registers. */
const known = [
  ...(['reg0', 'reg1', 'reg2', 'reg3', 'reg4', 'reg5', 'reg6', 'reg7'] as const),
  ...(['reg8', 'reg9', 'reg10', 'reg11', 'reg12', 'reg13', 'reg14', 'reg15'] as const),
  ...(['in_port', 'eth_src', 'eth_dst', 'eth_type', 'vlan_vid', 'pkt_mark'] as const),
  ...(['ip_src', 'ip_dst', 'ipv6_src', 'ipv6_dst', 'ip_frag', 'nw_ttl', 'ip_proto'] as const),
  ...(['tcp_src', 'tcp_dst', 'tcp_flags', 'udp_src', 'udp_dst', 'sctp_src', 'sctp_dst'] as const),
  ...(['icmp_type', 'icmp_code', 'icmpv6_type', 'icmpv6_code', 'nd_target', 'nd_sll', 'nd_tll'] as const),
  ...(['arp_op', 'arp_spa', 'arp_tpa', 'arp_sha', 'arp_tha'] as const),
  ...(['tun_id', 'tun_src', 'tun_dst', 'tun_ipv6_src', 'tun_ipv6_dst'] as const),
  ...(['ct_state', 'ct_zone', 'ct_mark', 'ct_nw_src', 'ct_nw_dst', 'ct_ipv6_src', 'ct_ipv6_dst'] as const),
  ...(['ct_nw_proto', 'ct_tp_src', 'ct_tp_dst'] as const),
] as const satisfies readonly FieldName[];

export type KnownField = (typeof known)[number];

/** Values of a packet's fields by their names in OpenFlow. Absent fields are zero. */
export type WalkedFields = { readonly [F in KnownField]?: number | bigint };

/** Position of a field in the words of a packet. */
interface WordPlace {
  readonly start: number;
  readonly words: number;
}

const places = new Map<FieldName, WordPlace>();
let next = 0;
for (const name of known) {
  const words = Math.ceil(fields[name].bits / 32);
  places.set(name, { start: next, words });
  next += words;
}
for (let pair = 0; pair < 8; pair++) places.set(`xreg${pair}` as 'xreg0', { start: 2 * pair, words: 2 });
for (let quad = 0; quad < 4; quad++) places.set(`xxreg${quad}` as 'xxreg0', { start: 4 * quad, words: 4 });
const wordCount = next;

/** FlowTests on one word of a packet. */
export interface WordTest {
  readonly word: number;
  readonly value: number;
  readonly mask: number;
}

/** Returns the conditions that a value of a field means; undefined if the walk does not know the field. */
export function testsOf(field: FieldName, value: bigint, mask: bigint): readonly WordTest[] | undefined {
  const place = places.get(field);
  if (!place) return undefined;
  return Array.from({ length: place.words }, (_, at) => {
    const wordMask = wordOf(mask, place, at);
    return { word: place.start + at, value: (wordOf(value, place, at) & wordMask) >>> 0, mask: wordMask };
  }).filter((test) => test.mask !== 0);
}

function wordOf(value: bigint, { words }: WordPlace, at: number): number {
  return Number((value >> BigInt(32 * (words - 1 - at))) & 0xffff_ffffn);
}

/** Header fields, registers and metadata of a packet on its way through the tables. */
export class PacketState {
  readonly #words: Uint32Array;

  private constructor(words: Uint32Array) {
    this.#words = words;
  }

  static of(values: WalkedFields): PacketState {
    const state = new PacketState(new Uint32Array(wordCount));
    for (const [name, value] of Object.entries(values)) if (value !== undefined) state.set(name as KnownField, BigInt(value));
    return state;
  }

  copy(): PacketState {
    return new PacketState(this.#words.slice());
  }

  /** Reports whether the packet meets all conditions. */
  meets(tests: readonly WordTest[]): boolean {
    for (const { word, value, mask } of tests) if (((this.#words[word] ?? 0) & mask) >>> 0 !== value) return false;
    return true;
  }

  get(name: KnownField): bigint {
    return this.read({ field: name, offset: 0, bits: fields[name].bits }) ?? 0n;
  }

  set(name: KnownField, value: bigint): void {
    this.write({ field: name, offset: 0, bits: fields[name].bits }, value);
  }

  /** Returns the value of part of a field; undefined if the walk does not know the field. */
  read({ field, offset, bits }: Subfield): bigint | undefined {
    const place = places.get(field);
    return place && (this.#value(place) >> BigInt(offset)) & maskOf(bits);
  }

  /** Writes part of a field. @returns false if the walk does not know the field */
  write({ field, offset, bits }: Subfield, value: bigint): boolean {
    return this.writeMasked(field, (value & maskOf(bits)) << BigInt(offset), maskOf(bits) << BigInt(offset));
  }

  /** Writes the bits of a mask. @returns false if the walk does not know the field */
  writeMasked(field: FieldName, value: bigint, mask: bigint): boolean {
    const place = places.get(field);
    if (!place) return false;
    const whole = (this.#value(place) & ~mask) | (value & mask);
    for (let at = 0; at < place.words; at++) this.#words[place.start + at] = wordOf(whole, place, at);
    return true;
  }

  #value({ start, words }: WordPlace): bigint {
    let value = 0n;
    for (let at = 0; at < words; at++) value = (value << 32n) | BigInt(this.#words[start + at] ?? 0);
    return value;
  }
}

export function maskOf(bits: number): bigint {
  return (1n << BigInt(bits)) - 1n;
}

/** Address in a packet. */
export type PacketAddress = Pick<Ip, 'family' | 'value'>;

/** Fields by which flows match addresses. */
const addressFields: Readonly<Record<Family, readonly KnownField[]>> = {
  ipv4: ['ip_src', 'ip_dst', 'arp_spa', 'arp_tpa', 'tun_src'],
  ipv6: ['ipv6_src', 'ipv6_dst', 'nd_target', 'tun_ipv6_src'],
};

/** Returns the addresses in those fields of a packet; fields that it lacks are zero. */
export function addressesOf(packet: PacketState): readonly PacketAddress[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) =>
    Array.from(new Set(addressFields[family].map((field) => packet.get(field))), (value) => ({ family, value })),
  );
}
