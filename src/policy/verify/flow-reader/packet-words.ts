import { type Family, type Ip, ipToBytes } from '../../../base/net/ip.ts';
import type { Mark } from '../../../dataplane/pipeline/registers.ts';
import type { FieldName, Subfield } from '../../../openflow/match/fields.ts';
import type { Match } from '../../../openflow/match/match.ts';
import type { PortProtocol, ProtocolPorts } from './protocol-port-ranges.ts';

/** Fields of a packet, 32 bits each; protocol and port are kept separately (`ProtocolPorts`). */
export type Words = Uint32Array;

/** First word of each field. `openedBy` is the source of the connection's original tuple. IPv4 addresses use the last of four words. */
const places = { in_port: 0, eth_type: 1, ip_frag: 2, ct_state: 3, ct_mark: 4, src: 5, dst: 9, reg: 13, openedBy: 29 } as const;
export const wordCount = 33;

const isWordOf = (start: number): ReadonlySet<number> => new Set([start, start + 1, start + 2, start + 3]);
/** Words of the address of each end. */
export const addressWords = { src: isWordOf(places.src), dst: isWordOf(places.dst) } as const;

export function isFamilyWord(word: number): boolean {
  return word === places.eth_type;
}

const etherTypes: Readonly<Record<Family, number>> = { ipv4: 0x0800, ipv6: 0x86dd };
/** IANA protocol numbers; GRE represents `other`. */
const protocols: Readonly<Record<number, PortProtocol>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP', 1: 'ICMP', 58: 'ICMP', 47: 'other' };
const portFields = { tcp_dst: 'TCP', udp_dst: 'UDP', sctp_dst: 'SCTP' } as const;
const simpleFields: ReadonlySet<string> = new Set(['in_port', 'eth_type', 'ip_frag', 'ct_state', 'ct_mark']);

export interface WordMatch {
  readonly word: number;
  readonly value: number;
  readonly mask: number;
}

/** Condition of a flow. `lane` is absent if the flow matches no protocol. */
export interface FlowCondition {
  readonly words: readonly WordMatch[];
  readonly ports?: ProtocolPorts;
}

/** Reads a match. @returns undefined if it has a field, or a port mask, that this reader does not know */
export function conditionOf(match: Match): FlowCondition | undefined {
  const words: WordMatch[] = [];
  let ports: ProtocolPorts | undefined;
  for (const [name, given] of Object.entries(match)) {
    if (given === undefined) continue;
    if (name === 'ip_proto' || name in portFields) {
      const read = portsOf(match);
      if (!read) return undefined;
      ports = read;
      continue;
    }
    const read = wordsOf(name, given);
    if (!read) return undefined;
    words.push(...read);
  }
  words.sort((a, b) => a.word - b.word);
  return ports ? { words, ports } : { words };
}

function portsOf(match: Match): ProtocolPorts | undefined {
  const protocol = typeof match.ip_proto === 'number' ? protocols[match.ip_proto] : undefined;
  if (!protocol) return undefined;
  const asked = (Object.keys(portFields) as (keyof typeof portFields)[]).filter((field) => match[field] !== undefined);
  const [field] = asked;
  if (!field) return { protocol, first: 0, last: 65_535 };
  const given = match[field];
  if (asked.length > 1 || portFields[field] !== protocol || given === undefined) return undefined;
  const { value, mask } = typeof given === 'number' ? { value: given, mask: 0xffff } : given;
  const rest = ~mask & 0xffff;
  // A port range is a mask whose zero bits are the lowest ones.
  return (rest & (rest + 1)) === 0 ? { protocol, first: value & mask, last: (value & mask) | rest } : undefined;
}

type GivenValue = NonNullable<Match[keyof Match]>;

function wordsOf(name: string, given: GivenValue): readonly WordMatch[] | undefined {
  const word = wordOf(name);
  if (given instanceof Uint8Array) return undefined;
  if (typeof given === 'number') return word === undefined ? undefined : [{ word, value: given >>> 0, mask: 0xffff_ffff }];
  if (typeof given === 'bigint') return wide(name, given, (1n << 128n) - 1n);
  if (typeof given.value === 'bigint' && typeof given.mask === 'bigint') return wide(name, given.value, given.mask);
  if (typeof given.value !== 'number' || typeof given.mask !== 'number' || word === undefined) return undefined;
  return given.mask === 0 ? [] : [{ word, value: (given.value & given.mask) >>> 0, mask: given.mask >>> 0 }];
}

function wide(name: string, value: bigint, mask: bigint): readonly WordMatch[] | undefined {
  const start = name === 'ipv6_src' ? places.src : name === 'ipv6_dst' ? places.dst : undefined;
  if (start === undefined) return undefined;
  return [0, 1, 2, 3]
    .map((at) => {
      const part = (all: bigint): number => Number((all >> BigInt(96 - 32 * at)) & 0xffff_ffffn);
      return { word: start + at, value: part(value & mask), mask: part(mask) };
    })
    .filter((each) => each.mask !== 0);
}

function wordOf(name: string): number | undefined {
  if (name === 'ip_src') return places.src + 3;
  if (name === 'ip_dst') return places.dst + 3;
  if (simpleFields.has(name)) return places[name as 'in_port'];
  const register = /^reg(\d+)$/.exec(name);
  return register ? places.reg + Number(register[1]) : undefined;
}

/** Returns the word of a register that an action writes; undefined if the field is not a register. */
export function registerWord(field: FieldName): number | undefined {
  return field.startsWith('reg') ? wordOf(field) : undefined;
}

export function write(words: Words, word: number, value: number, mask: number): void {
  words[word] = (((words[word] ?? 0) & ~mask) | (value & mask)) >>> 0;
}

/** Words that a lookup by the original tuple reads in place of the source address. */
export const openedByWords = isWordOf(places.openedBy);

/** Returns the words of a packet as a lookup by the original tuple of its connection sees them. */
export function asOpened(words: Words): Words {
  const opened = words.slice();
  opened.copyWithin(places.src, places.openedBy, places.openedBy + 4);
  return opened;
}

export function maskOf({ offset, bits }: Subfield): number {
  return (bits === 32 ? 0xffff_ffff : ((1 << bits) - 1) << offset) >>> 0;
}

export function writeMark(words: Words, mark: Mark): void {
  write(words, places.reg + mark.reg, mark.value, mark.mask);
}

/** Reports whether the register has the mark's value. */
export function hasMark(words: Words, mark: Mark): boolean {
  return ((words[places.reg + mark.reg] ?? 0) & mark.mask) >>> 0 === mark.value;
}

/** Connection state new and tracked: ovs-fields(7) "ct_state". */
const OPENING = 0x21;

interface PacketFields {
  readonly inPort: number;
  readonly source: Ip;
  readonly destination: Ip;
  /** Source of the original tuple. Default: the source. */
  readonly openedBy?: Ip;
  /** Value of ct_mark. */
  readonly ctMark: number;
}

/** Makes the words of a connection's first packet, before any register is loaded. */
export function packetWords({ inPort, source, destination, ctMark, openedBy = source }: PacketFields): Words {
  const words = new Uint32Array(wordCount);
  words[places.in_port] = inPort;
  words[places.eth_type] = etherTypes[source.family];
  words[places.ct_state] = OPENING;
  words[places.ct_mark] = ctMark;
  setAddress(words, places.src, source);
  setAddress(words, places.dst, destination);
  setAddress(words, places.openedBy, openedBy);
  return words;
}

function setAddress(words: Words, start: number, ip: Ip): void {
  if (ip.family === 'ipv4') {
    words[start + 3] = Number(ip.value);
    return;
  }
  const bytes = ipToBytes(ip);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let at = 0; at < 4; at++) words[start + at] = view.getUint32(4 * at);
}
