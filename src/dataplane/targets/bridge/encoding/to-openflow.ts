import { SeineError } from '../../../../base/errors/seine-error.ts';
import type { Cidr, Ip } from '../../../../base/net/ip.ts';
import { addressBits } from '../../../../base/net/ip.ts';
import type { Mac } from '../../../../base/net/mac.ts';
import type { Action } from '../../../../openflow/actions/action.ts';
import type { Instructions } from '../../../../openflow/flows/instructions.ts';
import type { FieldName, FieldValue } from '../../../../openflow/match/fields.ts';
import type { Match as OpenFlowMatch } from '../../../../openflow/match/match.ts';
import type { Masked } from '../../../../openflow/match/oxm.ts';
import { ofPort } from '../../../../openflow/protocol.ts';
import { probeNumberBits, reg } from '../../../pipeline/fields.ts';
import type { CtExec, CtState, CtStep, Match, MatchProtocol, Nat, Step, Transport } from '../../../pipeline/flow.ts';
import type { Mark } from '../../../pipeline/registers.ts';
import { tables } from '../../../pipeline/tables.ts';
import { type PipelinePacketInReason, packetInReason, probeTunnelKey } from '../../../pipeline/well-known.ts';
import { toLearn } from './learn-actions.ts';
import { etherTypes, ipProtocols, portFields, type RegisterName, range, registerName, whole } from './openflow-words.ts';

/**
 * Controller number for packet-ins, which OVS sends to the connection that set it with NXT_SET_CONTROLLER_ID; the connection that programs
 * flows has 0.
 */
export const packetInController = 1;
/** Controller number for copies of packets that continue without the agent: a connection of their own, so that they delay no other. */
export const copyController = 2;
const copyReasons: ReadonlySet<PipelinePacketInReason> = new Set(['opened', 'ended', 'answered', 'seen']);

const sourcePortFields = { tcp_dst: 'tcp_src', udp_dst: 'udp_src', sctp_dst: 'sctp_src' } as const;
/** Bits of TCP flags. Source: RFC 9293 section 3.1 "Control bits"; without those of RFC 3168. */
const tcpFlagBits = { fin: 0x01, syn: 0x02, rst: 0x04 } as const;
const tcpControlBits = 0x3f;
/** Bit of `ip_frag` that all fragments have. Source: ovs-fields(7) "ip_frag". */
const anyFragment = 1;
/** Bits of `ct_state`. Source: ovs-fields(7) "ct_state". */
const ctStateBits: Readonly<Record<CtState, number>> = { new: 1, est: 2, rel: 4, rpl: 8, inv: 16, trk: 32, snat: 64, dnat: 128 };
type MatchFields = { [F in FieldName]?: FieldValue<F> | Masked<FieldValue<F>> };

/** @throws SeineError `INVARIANT` if the match names a field without its prerequisite */
export function toOpenFlowMatch(match: Match): OpenFlowMatch {
  const fields: MatchFields = {};
  setHeader(fields, match);
  setNeighbour(fields, match);
  setMetadata(fields, match);
  return fields;
}

function setHeader(fields: MatchFields, match: Match): void {
  if (match.ethSrc !== undefined) fields.eth_src = macNumber(match.ethSrc);
  if (match.ethSrcEnd !== undefined) fields.eth_src = match.ethSrcEnd;
  if (match.ethDst !== undefined) fields.eth_dst = macNumber(match.ethDst);
  if (match.vlan !== undefined) fields.vlan_tci = { value: 0x1000, mask: 0x1000 };
  if (match.payload !== undefined) fields.eth_type = etherTypes[match.payload];
  if (match.protocol !== undefined) fields.ip_proto = ipProtocols[match.protocol];
  if (match.ipSrc !== undefined) setAddress(fields, 'src', match.ipSrc);
  if (match.ipSrcEnd !== undefined) {
    const { value, mask } = match.ipSrcEnd;
    if (match.payload === 'ipv6') fields.ipv6_src = { value: BigInt(value), mask: BigInt(mask) };
    else fields.ip_src = { value, mask };
  }
  if (match.ipDst !== undefined) setAddress(fields, 'dst', match.ipDst);
  if (match.ttl !== undefined) fields.nw_ttl = match.ttl;
  if (match.portDst !== undefined) fields[portField(match.protocol)] = match.portDst;
  if (match.portSrc !== undefined) fields[sourcePortFields[portField(match.protocol)]] = match.portSrc;
  if (match.tcpFlags !== undefined) fields.tcp_flags = { value: tcpFlagBits[match.tcpFlags], mask: tcpControlBits };
  if (match.tcpFlag !== undefined) fields.tcp_flags = { value: tcpFlagBits[match.tcpFlag], mask: tcpFlagBits[match.tcpFlag] };
  if (match.fragment !== undefined) fields.ip_frag = { value: anyFragment, mask: anyFragment };
  if (match.icmpType !== undefined) fields[match.protocol === 'icmp6' ? 'icmpv6_type' : 'icmp_type'] = match.icmpType;
  if (match.icmpCode !== undefined) fields[match.protocol === 'icmp6' ? 'icmpv6_code' : 'icmp_code'] = match.icmpCode;
}

function setNeighbour(fields: MatchFields, match: Match): void {
  if (match.ndTarget !== undefined) fields.nd_target = match.ndTarget.value;
  if (match.ndSll !== undefined) fields.nd_sll = linkLayer(match.ndSll);
  if (match.ndTll !== undefined) fields.nd_tll = linkLayer(match.ndTll);
  if (match.arpOp !== undefined) fields.arp_op = match.arpOp === 'request' ? 1 : 2;
  if (match.arpSpa !== undefined) fields.arp_spa = Number(match.arpSpa.value);
  if (match.arpTpa !== undefined) fields.arp_tpa = Number(match.arpTpa.value);
  if (match.arpSha !== undefined) fields.arp_sha = macNumber(match.arpSha);
}

function setMetadata(fields: MatchFields, match: Match): void {
  if (match.inPort !== undefined) fields.in_port = match.inPort;
  if (match.tunSrc !== undefined) {
    if (match.tunSrc.family === 'ipv4') fields.tun_src = Number(match.tunSrc.value);
    else fields.tun_ipv6_src = match.tunSrc.value;
  }
  // A tunnelled packet has one outer header; the other family's addresses are zero.
  if (match.tunFamily === 'ipv6') fields.tun_src = 0;
  if (match.tunFamily === 'ipv4') fields.tun_ipv6_src = 0n;
  if (match.tunKey !== undefined) fields.tun_id = { value: BigInt(match.tunKey.value), mask: BigInt(match.tunKey.mask) };
  if (match.ctState !== undefined) fields.ct_state = ctStateValue(match.ctState);
  // Open vSwitch drops these ports from the match unless the tracked protocol is also given, and the flow would match every port.
  if ((match.ctPortDst ?? match.ctPortSrc) !== undefined && match.protocol) fields.ct_nw_proto = ipProtocols[match.protocol];
  if (match.ctPortDst !== undefined) fields.ct_tp_dst = match.ctPortDst;
  if (match.ctPortSrc !== undefined) fields.ct_tp_src = match.ctPortSrc;
  if (match.ctMarks !== undefined) fields.ct_mark = joined(match.ctMarks);
  if (match.regs !== undefined)
    for (const [reg, marks] of Map.groupBy(match.regs, (mark) => mark.reg)) fields[registerName(reg)] = joined(marks);
}

function portField(protocol: MatchProtocol | undefined): (typeof portFields)[Transport] {
  if (protocol !== 'tcp' && protocol !== 'udp' && protocol !== 'sctp')
    throw new SeineError('INVARIANT', `portDst is matched for protocol ${protocol}`);
  return portFields[protocol];
}

function setAddress(fields: MatchFields, end: 'src' | 'dst', of: Ip | Cidr): void {
  const { value, prefixLength } =
    'network' in of
      ? { value: of.network.value, prefixLength: of.prefixLength }
      : { value: of.value, prefixLength: addressBits(of.family) };
  const bits = addressBits(of.family);
  const mask = (1n << BigInt(bits)) - (1n << BigInt(bits - prefixLength));
  if (of.family === 'ipv4') fields[`ip_${end}`] = { value: Number(value), mask: Number(mask) };
  else fields[`ipv6_${end}`] = { value, mask };
}

function ctStateValue(state: NonNullable<Match['ctState']>): Masked<number> {
  let value = 0;
  let mask = 0;
  for (const bit of Object.keys(state) as CtState[]) {
    mask |= ctStateBits[bit];
    if (state[bit] === '+') value |= ctStateBits[bit];
  }
  return { value, mask };
}

function joined(marks: readonly Mark[]): Masked<number> {
  return { value: marks.reduce((sum, mark) => sum + mark.value, 0), mask: marks.reduce((sum, mark) => sum + mark.mask, 0) };
}

/**
 * @throws SeineError `INVARIANT` if a `goto` is not the last step
 */
export function toInstructions(steps: readonly Step[]): Instructions {
  const last = steps.at(-1);
  const apply = last?.do === 'goto' ? steps.slice(0, -1) : steps;
  const instructions = { apply: toActions(apply) };
  return last?.do === 'goto' ? { ...instructions, gotoTable: tables[last.table].id } : instructions;
}

export function toActions(steps: readonly Step[]): readonly Action[] {
  const actions: Action[] = [];
  for (const step of steps) for (const action of toAction(step)) actions.push(action);
  return actions;
}

function toAction(step: Step): readonly Action[] {
  switch (step.do) {
    case 'load':
      return [loadMark(registerName(step.mark.reg), step.mark)];
    case 'setEthSrc':
      return [{ kind: 'setField', field: 'eth_src', value: macNumber(step.mac) }];
    case 'setEthDst':
      return [{ kind: 'setField', field: 'eth_dst', value: macNumber(step.mac) }];
    case 'setIpSrc':
      return [setSource(step.ip)];
    case 'setIpSrcToOpened':
      return [{ kind: 'move', from: whole('ct_ipv6_dst', 128), to: whole('ipv6_src', 128) }];
    case 'saveIpSrc':
    case 'restoreIpSrc':
      return [moveSource(step)];
    case 'setTunSrc':
      return [setTunnel('src', step.ip)];
    case 'setTunDst':
      return [setTunnel('dst', step.ip)];
    case 'probeToTunnel':
      return [
        { kind: 'setField', field: 'tun_id', value: BigInt(probeTunnelKey.value) },
        { kind: 'move', from: range(registerName(probeNumberBits.reg), probeNumberBits), to: range('tun_id', probeNumberBits) },
      ];
    case 'probeFromTunnel':
      return [
        { kind: 'move', from: range('tun_id', probeNumberBits), to: range(registerName(probeNumberBits.reg), probeNumberBits) },
        loadMark(registerName(probeNumberBits.reg), reg.probe('yes')),
        { kind: 'setField', field: 'tun_id', value: 0n },
      ];
    case 'decTtl':
      return [{ kind: 'decTtl' }];
    case 'answerArp':
      return answerArp(step.ip, step.mac);
    case 'ct':
      return [toCt(step)];
    case 'group':
      return [{ kind: 'group', group: step.group }];
    case 'meter':
      return [{ kind: 'meter', meter: step.meter }];
    case 'resubmit':
      return [{ kind: 'resubmit', table: tables[step.table].id, ...(step.by ? { withTracked: true } : {}) }];
    case 'goto':
      throw new SeineError('INVARIANT', `goto ${step.table} is not the last step`);
    case 'output':
      return [{ kind: 'output', port: step.port }];
    case 'outputToRegister':
      return [{ kind: 'outputRegister', from: whole('reg1', 32), maxLength: 0xffff }];
    case 'outputInPort':
      return [{ kind: 'output', port: ofPort.inPort }];
    case 'normal':
      return [{ kind: 'output', port: ofPort.normal }];
    case 'toAgent':
      return [
        {
          kind: 'controller',
          controller: copyReasons.has(step.reason) ? copyController : packetInController,
          ...(step.bytes === undefined ? {} : { maxLength: step.bytes }),
          userdata: Uint8Array.of(packetInReason[step.reason], ...Buffer.from(step.detail ?? '')),
          ...(step.meter === undefined ? {} : { meter: step.meter }),
        },
      ];
    case 'learnUnknownTunnelPeer':
    case 'learnChoice':
    case 'learnFragments':
    case 'learnAssociation':
      return [toLearn(step)];
  }
}

/**
 * Actions that turn an ARP request into its reply. RFC 826: the target's hardware address replaces the sender's, and the packet is
 * returned.
 */
function answerArp(ip: Ip, mac: Mac): readonly Action[] {
  return [
    { kind: 'move', from: whole('eth_src', 48), to: whole('eth_dst', 48) },
    { kind: 'setField', field: 'eth_src', value: macNumber(mac) },
    { kind: 'setField', field: 'arp_op', value: 2 },
    { kind: 'move', from: whole('arp_sha', 48), to: whole('arp_tha', 48) },
    { kind: 'setField', field: 'arp_sha', value: macNumber(mac) },
    { kind: 'move', from: whole('arp_spa', 32), to: whole('arp_tpa', 32) },
    { kind: 'setField', field: 'arp_spa', value: Number(ip.value) },
    { kind: 'output', port: ofPort.inPort },
  ];
}

function toCt(step: CtStep): Action {
  const next = step.next ? { table: tables[step.next].id } : {};
  const base = { kind: 'ct', commit: step.commit, zone: step.zone, ...next, exec: step.exec.map(toExec) } as const;
  return step.nat ? { ...base, nat: toNat(step.nat) } : base;
}

function toNat(nat: Nat): NonNullable<Extract<Action, { kind: 'ct' }>['nat']> {
  if (nat.kind === 'restore') return {};
  const addresses =
    nat.ip.family === 'ipv4'
      ? ({ family: 'ipv4', first: Number(nat.ip.value) } as const)
      : ({ family: 'ipv6', first: nat.ip.value } as const);
  const port = nat.kind === 'dst' ? nat.port : undefined;
  return port === undefined ? { direction: nat.kind, addresses } : { direction: nat.kind, addresses, ports: { first: port } };
}

function toExec(exec: CtExec): Action {
  if (exec.do === 'mark') return loadMark('ct_mark', exec.mark);
  return { kind: 'move', from: range(registerName(exec.from.reg), exec.from), to: range('ct_mark', exec.to) };
}

function loadMark(field: 'ct_mark' | RegisterName, { value, mask }: Mark): Action {
  return mask === 0xffff_ffff ? { kind: 'setField', field, value } : { kind: 'setField', field, value, mask };
}

function setSource({ family, value }: Ip): Action {
  return family === 'ipv4' ? { kind: 'setField', field: 'ip_src', value: Number(value) } : { kind: 'setField', field: 'ipv6_src', value };
}

function moveSource({ do: what, family }: Extract<Step, { do: 'saveIpSrc' | 'restoreIpSrc' }>): Action {
  const bits = addressBits(family);
  const [address, saved] =
    family === 'ipv4' ? [whole('ip_src', bits), whole('reg3', bits)] : [whole('ipv6_src', bits), whole('xxreg3', bits)];
  return what === 'saveIpSrc' ? { kind: 'move', from: address, to: saved } : { kind: 'move', from: saved, to: address };
}

function setTunnel(end: 'src' | 'dst', ip: Ip): Action {
  if (ip.family === 'ipv4') return { kind: 'setField', field: `tun_${end}`, value: Number(ip.value) };
  return { kind: 'setField', field: `tun_ipv6_${end}`, value: ip.value };
}

function linkLayer(mac: Mac | 'absent'): number {
  return mac === 'absent' ? 0 : macNumber(mac);
}

function macNumber(mac: Mac): number {
  return Number.parseInt(mac.replaceAll(':', ''), 16);
}
