import type { Ip } from '../../src/base/net/ip.ts';
import type { CtState } from '../../src/dataplane/pipeline/flow.ts';
import { type PipelineTableName, tableName } from '../../src/dataplane/pipeline/tables.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import type { Arrival } from '../model/conversation.ts';
import { etherTypes, ipProtocols, noNextHeader, tcpSteps } from './frame.ts';
import type { Unixctl } from './unixctl.ts';

/** Assumptions of a trace. */
export interface Pretence {
  /** Bits of `ct_state` after the first `ct()`, the second, … */
  readonly states: readonly (readonly CtState[])[];
  readonly ctMark: number;
  /** Slot of a group for the packet; not 0, which means that the hash is not known yet. */
  readonly dpHash: number;
}

export interface Traced {
  /** In the order of their visits, with repetitions. */
  readonly tables: readonly PipelineTableName[];
  /** Ports by number, as the last table's actions name them. */
  readonly outputs: readonly number[];
  readonly text: string;
}

/**
 * Traces a packet with these headers in OVS, without side effects. A trace of the packet itself tracks its connection and learns its
 * client, as if it had arrived: later packets with those ports match them as long as OVS remembers. Source: ovs-vswitchd(8)
 * "ofproto/trace", "Side effects".
 */
export async function trace(control: Unixctl, { inPort, packet }: Arrival, { states, ctMark, dpHash }: Pretence): Promise<Traced> {
  // A mark counts only on a packet that was tracked.
  const metadata = { in_port: inPort, ct_state: 'trk', ct_mark: ctMark, dp_hash: dpHash };
  const fields = { ...metadata, ...outerFields(packet), ...innerFields(packet) };
  const flow = Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const next = states.flatMap((state) => ['--ct-next', state.join(',')]);
  const text = await control.run('ofproto/trace', 'br-int', flow.join(','), ...next);
  return { ...visits(text), text };
}

type Fields = Readonly<Record<string, string | number | undefined>>;

function outerFields({ tunSrc, tunDst }: Packet): Fields {
  return { ...address('tun', 'tun_ipv6', 'src', tunSrc), ...address('tun', 'tun_ipv6', 'dst', tunDst) };
}

/** Fields in the syntax of ovs-ofctl(8), each after its prerequisites. Source: ovs-fields(7). */
function innerFields(packet: Packet): Fields {
  const { ethSrc, ethDst, vlan, payload } = packet;
  const link = { dl_src: ethSrc, dl_dst: ethDst, dl_vlan: vlan, dl_type: etherTypes[payload] };
  if (payload === 'other') return link;
  if (payload === 'arp') return { ...link, ...arpFields(packet) };
  const { protocol, ipSrc, ipDst, ttl } = packet;
  const ends = { ...address('nw', 'ipv6', 'src', ipSrc), ...address('nw', 'ipv6', 'dst', ipDst) };
  const number = protocol === undefined ? noNextHeader : ipProtocols[protocol];
  return { ...link, ...ends, nw_proto: number, nw_ttl: ttl, ...transportFields(packet) };
}

function arpFields({ ethSrc, ethDst, arpOp, arpSpa, arpTpa, arpSha, arpTha }: Packet): Fields {
  const said = { arp_spa: arpSpa?.text, arp_tpa: arpTpa?.text, arp_sha: arpSha ?? ethSrc, arp_tha: arpTha ?? ethDst };
  return { arp_op: arpOp === 'request' ? 1 : 2, ...said };
}

function transportFields(packet: Packet): Fields {
  const { protocol, portSrc = 0, portDst = 0, icmpType = 0, icmpCode = 0 } = packet;
  switch (protocol) {
    case 'tcp':
      return { tcp_src: portSrc, tcp_dst: portDst, tcp_flags: tcpSteps[packet.tcpFlags ?? 'syn'].flags };
    case 'udp':
      return { udp_src: portSrc, udp_dst: portDst };
    case 'sctp':
      return { sctp_src: portSrc, sctp_dst: portDst };
    case 'icmp':
      return { icmp_type: icmpType, icmp_code: icmpCode };
    case 'icmp6':
      return { icmpv6_type: icmpType, icmpv6_code: icmpCode, ...(icmpCode === 0 && neighbourFields(packet)) };
    default:
      return {};
  }
}

/** Source: RFC 4861 sections 4.3 and 4.4. */
function neighbourFields({ icmpType, ndTarget, ndSll, ndTll }: Packet): Fields {
  if (icmpType === 135) return { nd_target: ndTarget?.text, nd_sll: ndSll };
  return icmpType === 136 ? { nd_target: ndTarget?.text, nd_tll: ndTll } : {};
}

function address(ipv4: string, ipv6: string, end: 'src' | 'dst', ip: Ip | undefined): Fields {
  return { [`${ip?.family === 'ipv6' ? ipv6 : ipv4}_${end}`]: ip?.text };
}

/** Tables and outputs of `br-int`; if a packet continues through the tunnel, the next bridge's follow. */
function visits(text: string): Pick<Traced, 'tables' | 'outputs'> {
  const tables: PipelineTableName[] = [];
  const outputs: number[] = [];
  let ours = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('bridge(')) ours = line.includes('"br-int"');
    if (!ours) continue;
    const [, number] = /^\s*(\d+)\. /.exec(line) ?? [];
    const table = number === undefined ? undefined : tableName(Number(number));
    if (table) tables.push(table);
    const [, port] = /^\s+(?:-> output port is |output:)(\d+)$/.exec(line) ?? [];
    if (port !== undefined) outputs.push(Number(port));
  }
  return { tables, outputs };
}
