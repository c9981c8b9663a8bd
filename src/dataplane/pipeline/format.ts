import type { Cidr, Ip } from '../../base/net/ip.ts';
import { probeNumberBits, reg } from './fields.ts';
import type { Bits, CtExec, CtStep, Flow, Group, LearnChoice, Match, MatchProtocol, Meter, Nat, Step, ToAgentStep } from './flow.ts';
import type { BitRange, Mark } from './registers.ts';
import { packetInReason, probeTunnelKey } from './well-known.ts';

/** Returns a flow as one line in the notation of `ovs-ofctl --names dump-flows`, for tests, documents and logs. */
export function formatFlow(flow: Flow): string {
  const match = formatMatch(flow.match);
  return `table=${flow.table},priority=${flow.priority}${match === '' ? '' : `,${match}`} actions=${formatSteps(flow.steps)}`;
}

export function formatGroup(group: Group): string {
  const buckets = group.buckets.map(({ weight, steps }) => `bucket=weight:${weight},actions=${formatSteps(steps)}`);
  return [`group_id=${group.id},type=select,selection_method=dp_hash`, ...buckets].join(',');
}

export function formatMeter({ id, unit, rate, burst }: Meter): string {
  return `meter=${id},${unit === 'packets' ? 'pktps' : 'kbps'},burst,bands=type=drop,rate=${rate},burst_size=${burst}`;
}

function formatMatch(match: Match): string {
  const parts: (string | undefined)[] = [
    match.inPort === undefined ? undefined : `in_port=${match.inPort}`,
    ...(match.regs ?? []).map((mark) => `reg${mark.reg}=${masked(mark)}`),
    ctState(match),
    ...(match.ctMarks ?? []).map((mark) => `ct_mark=${masked(mark)}`),
    match.tunFamily && (match.tunFamily === 'ipv6' ? 'tun_src=0.0.0.0' : 'tun_ipv6_src=::'),
    match.tunKey && `tun_id=${bitsUnderMask(match.tunKey)}`,
    match.tunSrc && `${match.tunSrc.family === 'ipv4' ? 'tun_src' : 'tun_ipv6_src'}=${match.tunSrc.text}`,
    match.vlan && 'vlan_tci=0x1000/0x1000',
    protocol(match),
    match.ethSrc && `dl_src=${match.ethSrc}`,
    match.ethSrcEnd && `dl_src=…${bitsUnderMask(match.ethSrcEnd)}`,
    match.ethDst && `dl_dst=${match.ethDst}`,
    match.arpSpa && `arp_spa=${match.arpSpa.text}`,
    match.arpTpa && `arp_tpa=${match.arpTpa.text}`,
    match.arpOp && `arp_op=${match.arpOp === 'request' ? 1 : 2}`,
    match.arpSha && `arp_sha=${match.arpSha}`,
    match.ipSrc && `${address('src', match.ipSrc)}`,
    match.ipSrcEnd && `${match.payload === 'ipv6' ? 'ipv6' : 'nw'}_src=…${bitsUnderMask(match.ipSrcEnd)}`,
    match.ipDst && `${address('dst', match.ipDst)}`,
    match.ttl === undefined ? undefined : `nw_ttl=${match.ttl}`,
    match.fragment && 'ip_frag=yes',
    match.portSrc && `tp_src=${bitsUnderMask(match.portSrc)}`,
    match.portDst === undefined ? undefined : `tp_dst=${typeof match.portDst === 'number' ? match.portDst : bitsUnderMask(match.portDst)}`,
    match.tcpFlags && `tcp_flags=${match.tcpFlags === 'syn' ? '-fin+syn-rst' : '-fin-syn+rst'}-psh-ack-urg`,
    match.tcpFlag && `tcp_flags=+${match.tcpFlag}`,
    (match.ctPortSrc ?? match.ctPortDst) !== undefined && match.protocol ? `ct_nw_proto=${ipProtocolNumber[match.protocol]}` : undefined,
    match.ctPortSrc && `ct_tp_src=${bitsUnderMask(match.ctPortSrc)}`,
    match.ctPortDst === undefined ? undefined : `ct_tp_dst=${match.ctPortDst}`,
    match.icmpType === undefined ? undefined : `icmp_type=${match.icmpType}`,
    match.icmpCode === undefined ? undefined : `icmp_code=${match.icmpCode}`,
    match.ndTarget && `nd_target=${match.ndTarget.text}`,
    match.ndSll && `nd_sll=${match.ndSll === 'absent' ? '00:00:00:00:00:00' : match.ndSll}`,
    match.ndTll && `nd_tll=${match.ndTll === 'absent' ? '00:00:00:00:00:00' : match.ndTll}`,
  ];
  return parts.filter((part) => part !== undefined).join(',');
}

/** Protocol numbers, as conntrack's fields show them. Source: IANA protocol numbers. */
const ipProtocolNumber: Readonly<Record<MatchProtocol, number>> = { icmp: 1, tcp: 6, udp: 17, gre: 47, icmp6: 58, sctp: 132 };

function protocol({ payload, protocol: carried }: Match): string | undefined {
  if (carried === undefined) return payload === 'ipv4' ? 'ip' : payload;
  if (carried === 'icmp6') return 'icmp6';
  if (carried === 'gre') return `${payload === 'ipv6' ? 'ipv6' : 'ip'},nw_proto=47`;
  return payload === 'ipv6' ? `${carried}6` : carried;
}

function address(end: 'src' | 'dst', of: Ip | Cidr): string {
  return `${of.family === 'ipv4' ? 'nw' : 'ipv6'}_${end}=${of.text}`;
}

function ctState({ ctState: state }: Match): string | undefined {
  if (!state) return undefined;
  return `ct_state=${Object.entries(state)
    .map(([bit, sign]) => `${sign}${bit}`)
    .join('')}`;
}

function masked(mark: Mark): string {
  return mark.mask === 0xffff_ffff ? hex(mark.value) : bitsUnderMask(mark);
}

function bitsUnderMask({ value, mask }: Bits): string {
  return `${hex(value)}/${hex(mask)}`;
}

function formatSteps(steps: readonly Step[]): string {
  return steps.length === 0 ? 'drop' : steps.map(formatStep).join(',');
}

function formatStep(step: Step): string {
  switch (step.do) {
    case 'load':
      return `set_field:${masked(step.mark)}->reg${step.mark.reg}`;
    case 'setEthSrc':
      return `set_field:${step.mac}->eth_src`;
    case 'setEthDst':
      return `set_field:${step.mac}->eth_dst`;
    case 'setIpSrc':
      return `set_field:${step.ip.text}->${step.ip.family === 'ipv6' ? 'ipv6' : 'ip'}_src`;
    case 'setIpSrcToOpened':
      return 'move:ct_ipv6_dst->ipv6_src';
    case 'saveIpSrc':
      return step.family === 'ipv4' ? 'move:ip_src->reg3' : 'move:ipv6_src->xxreg3';
    case 'restoreIpSrc':
      return step.family === 'ipv4' ? 'move:reg3->ip_src' : 'move:xxreg3->ipv6_src';
    case 'setTunSrc':
    case 'setTunDst':
      return `set_field:${step.ip.text}->tun_${step.ip.family === 'ipv6' ? 'ipv6_' : ''}${step.do === 'setTunSrc' ? 'src' : 'dst'}`;
    case 'probeToTunnel':
      return `set_field:${hex(probeTunnelKey.value)}->tun_id,move:${bits('reg', probeNumberBits)}->tun_id[0..11]`;
    case 'probeFromTunnel':
      return `move:tun_id[0..11]->${bits('reg', probeNumberBits)},set_field:${masked(reg.probe('yes'))}->reg11,set_field:0->tun_id`;
    case 'decTtl':
      return 'dec_ttl';
    case 'answerArp':
      return `answer_arp(${step.ip.text} is at ${step.mac})`;
    case 'ct':
      return formatCt(step);
    case 'group':
      return `group:${step.group}`;
    case 'meter':
      return `meter:${step.meter}`;
    case 'resubmit':
      return `resubmit(,${step.table}${step.by ? ',ct' : ''})`;
    case 'goto':
      return `goto_table:${step.table}`;
    case 'output':
      return `output:${step.port}`;
    case 'outputToRegister':
      return 'output:reg1';
    case 'outputInPort':
      return 'IN_PORT';
    case 'normal':
      return 'NORMAL';
    case 'toAgent':
      return formatToAgent(step);
    case 'learnUnknownTunnelPeer':
      return `learn(table=unknownTunnelPeers,${step.family === 'ipv4' ? 'tun_src' : 'tun_ipv6_src'})`;
    case 'learnChoice':
      return formatLearnChoice(step);
    case 'learnFragments':
      return `learn(table=affinity,${step.family === 'ipv4' ? 'udp,ip_frag=later,nw_src,nw_dst' : 'ipv6,nw_proto=44,ip_frag=later,ipv6_src,ipv6_dst'},load:endpoint)`;
    case 'learnAssociation':
      return `learn(table=associations,${step.family === 'ipv4' ? 'sctp' : 'sctp6'},${step.side === 'opener' ? 'as sent' : 'ends exchanged'},${step.as}${step.share === undefined ? '' : `,share=${step.share}`})`;
  }
}

function formatToAgent({ reason, meter, bytes, detail = '' }: ToAgentStep): string {
  const userdata = Array.from([packetInReason[reason], ...Buffer.from(detail)], (byte) => byte.toString(16).padStart(2, '0')).join('.');
  const parts = [
    bytes === undefined ? undefined : `max_len=${bytes}`,
    `userdata=${userdata}`,
    meter === undefined ? undefined : `meter_id=${meter}`,
  ];
  return `controller(${parts.filter((part) => part !== undefined).join(',')})`;
}

function formatCt(step: CtStep): string {
  const exec = step.exec.map(formatExec).join(',');
  const parts = [
    step.commit ? 'commit' : undefined,
    step.next && `table=${step.next}`,
    `zone=${step.zone}`,
    step.nat && formatNat(step.nat),
    exec === '' ? undefined : `exec(${exec})`,
  ];
  return `ct(${parts.filter((part) => part !== undefined).join(',')})`;
}

function withPort({ family, text }: Ip, port: number | undefined): string {
  if (port === undefined) return text;
  return `${family === 'ipv6' ? `[${text}]` : text}:${port}`;
}

function formatNat(nat: Nat): string {
  switch (nat.kind) {
    case 'restore':
      return 'nat';
    case 'src':
      return `nat(src=${nat.ip.text})`;
    case 'dst':
      return `nat(dst=${withPort(nat.ip, nat.port)})`;
  }
}

/** Abbreviates a learn action: in the notation of ovs-actions(7) it would take three lines, mostly the same for every Service. */
function formatLearnChoice({ family, transport, idleSeconds }: LearnChoice): string {
  const [source, destination] = family === 'ipv4' ? ['nw_src', 'nw_dst'] : ['ipv6_src', 'ipv6_dst'];
  const timeout = idleSeconds === undefined ? '' : `idle_timeout=${idleSeconds},`;
  return `learn(table=affinity,${timeout}${family === 'ipv6' ? `${transport}6` : transport},${source},${destination},tp_dst,load:endpoint)`;
}

function formatExec(exec: CtExec): string {
  return exec.do === 'mark' ? `set_field:${masked(exec.mark)}->ct_mark` : `move:${bits('reg', exec.from)}->${bits('ct_mark', exec.to)}`;
}

function bits(name: 'reg' | 'ct_mark', { reg, first, width }: BitRange): string {
  return `${name === 'reg' ? `reg${reg}` : name}[${first}..${first + width - 1}]`;
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}
