import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import type { Bits, CtState, Match } from '../pipeline/flow.ts';
import type { Remembered } from './connection-tracker.ts';
import type { Packet, Tuple } from './packet.ts';

/** A packet on its way. */
export interface Travel {
  packet: Packet;
  readonly inPort: number;
  readonly regs: number[];
  ctState: ReadonlySet<CtState>;
  ctMark: number;
  remembered?: Remembered | undefined;
  /** Source address in the registers of the endpoint. */
  savedSource?: Ip | undefined;
  /** The connection's first packet, once tracked. */
  original?: Tuple | undefined;
  /** True if OVS does not see the original tuple of its connection. */
  hidesTuple?: boolean;
}

type MatchField = keyof Match;
type MatchValues = Required<Match>;
type Tests = { readonly [F in MatchField]: (wanted: MatchValues[F], travel: Travel) => boolean };

const equal = (a: Ip | undefined, b: Ip): boolean => a?.text === b.text && a.family === b.family;
const within = (ip: Ip | undefined, of: Ip | Cidr): boolean => ip !== undefined && ('network' in of ? cidrContains(of, ip) : equal(ip, of));

const tests: Tests = {
  inPort: (wanted, { inPort }) => inPort === wanted,
  ethSrc: (wanted, { packet }) => packet.ethSrc === wanted,
  ethSrcEnd: (wanted, { packet }) => packet.ethSrc !== undefined && hasBits(Number.parseInt(packet.ethSrc.slice(-2), 16), wanted),
  ethDst: (wanted, { packet }) => packet.ethDst === wanted,
  vlan: (_, { packet }) => packet.vlan !== undefined,
  payload: (wanted, { packet }) => packet.payload === wanted,
  protocol: (wanted, { packet }) => packet.protocol === wanted,
  ipSrc: (wanted, { packet }) => within(packet.ipSrc, wanted),
  ipSrcEnd: (wanted, { packet }) => packet.ipSrc !== undefined && hasBits(Number(packet.ipSrc.value & 0xffff_ffffn), wanted),
  ipDst: (wanted, { packet }) => within(packet.ipDst, wanted),
  ttl: (wanted, { packet }) => packet.ttl === wanted,
  portDst: (wanted, { packet }) =>
    typeof wanted === 'number' ? packet.portDst === wanted : packet.portDst !== undefined && hasBits(packet.portDst, wanted),
  portSrc: (wanted, { packet }) => packet.portSrc !== undefined && hasBits(packet.portSrc, wanted),
  tcpFlags: (wanted, { packet }) => packet.tcpFlags === wanted,
  tcpFlag: (wanted, { packet }) => packet.tcpFlags?.startsWith(wanted) === true,
  // The model supports whole packets only.
  fragment: () => false,
  ctPortDst: (wanted, { original }) => original?.dstPort === wanted,
  ctPortSrc: (wanted, { original }) => original !== undefined && hasBits(original.srcPort, wanted),
  icmpType: (wanted, { packet }) => packet.icmpType === wanted,
  icmpCode: (wanted, { packet }) => (packet.icmpCode ?? 0) === wanted,
  ndTarget: (wanted, { packet }) => equal(packet.ndTarget, wanted),
  ndSll: (wanted, { packet }) => packet.ndSll === (wanted === 'absent' ? undefined : wanted),
  ndTll: (wanted, { packet }) => packet.ndTll === (wanted === 'absent' ? undefined : wanted),
  arpOp: (wanted, { packet }) => packet.arpOp === wanted,
  arpSpa: (wanted, { packet }) => equal(packet.arpSpa, wanted),
  arpTpa: (wanted, { packet }) => equal(packet.arpTpa, wanted),
  arpSha: (wanted, { packet }) => packet.arpSha === wanted,
  tunSrc: (wanted, { packet }) => equal(packet.tunSrc, wanted),
  tunFamily: (wanted, { packet }) => packet.tunSrc?.family === wanted,
  tunKey: (wanted, { packet }) => hasBits(packet.tunKey ?? 0, wanted),
  ctState: (wanted, { ctState }) =>
    Object.entries(wanted).every(([bit, sign]) => (sign === '+') === [...ctState].some((have) => have === bit)),
  ctMarks: (wanted, { ctMark }) => wanted.every((mark) => hasBits(ctMark, mark)),
  regs: (wanted, { regs }) => wanted.every((mark) => hasBits(regs[mark.reg] ?? 0, mark)),
};

/** Reports whether the packet meets every condition of the match. */
export function matches(match: Match, travel: Travel): boolean {
  return (Object.keys(match) as MatchField[]).every((field) => test(field, match, travel));
}

function test<F extends MatchField>(field: F, match: { readonly [G in F]?: MatchValues[G] }, travel: Travel): boolean {
  const wanted = match[field];
  return wanted === undefined || tests[field](wanted, travel);
}

function hasBits(value: number, bits: Bits): boolean {
  return (value & bits.mask) >>> 0 === bits.value >>> 0;
}
