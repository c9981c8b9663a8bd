import type { Ip } from '../../src/base/net/ip.ts';
import type { Mac } from '../../src/base/net/mac.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { FlowsInMemory } from '../../src/dataplane/flow-walk/flows-in-memory.ts';
import type { InstalledFlow } from '../../src/dataplane/flow-walk/installed-flow.ts';
import type { KnownField, PacketState, WalkedFields } from '../../src/dataplane/flow-walk/packet-state.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow, Group } from '../../src/dataplane/pipeline/flow.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { type BridgeKey, decodeFlowEntry, encodeBridgeEntries, groupMessage } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { decodeGroupMod } from '../../src/openflow/groups/group.ts';
import { etherTypes, ipProtocols, noNextHeader, tcpSteps } from './frame.ts';

type Values = { [F in KnownField]?: number | bigint };

/** Fields of a packet as the interpreter of bytes has them. */
export function walkFieldsOf(inPort: number, packet: Packet): WalkedFields {
  const { ethSrc, ethDst, vlan, payload, tunSrc, tunDst } = packet;
  const fields: Values = { in_port: inPort, eth_src: macNumber(ethSrc), eth_dst: macNumber(ethDst), eth_type: etherTypes[payload] };
  if (vlan !== undefined) fields.vlan_vid = 0x1000 + vlan;
  setIp(fields, ['tun_src', 'tun_ipv6_src'], tunSrc);
  setIp(fields, ['tun_dst', 'tun_ipv6_dst'], tunDst);
  if (payload === 'arp') setArp(fields, packet);
  if (payload === 'ipv4' || payload === 'ipv6') setTransport(fields, packet);
  return fields;
}

function setArp(fields: Values, { ethSrc, ethDst, arpOp, arpSpa, arpTpa, arpSha, arpTha }: Packet): void {
  fields.arp_op = arpOp === 'request' ? 1 : 2;
  fields.arp_sha = macNumber(arpSha ?? ethSrc);
  fields.arp_tha = macNumber(arpTha ?? ethDst);
  fields.arp_spa = arpSpa?.value ?? 0n;
  fields.arp_tpa = arpTpa?.value ?? 0n;
}

function setTransport(fields: Values, packet: Packet): void {
  const { protocol, ipSrc, ipDst, ttl = 0, portSrc = 0, portDst = 0, icmpType = 0, icmpCode = 0 } = packet;
  setIp(fields, ['ip_src', 'ipv6_src'], ipSrc);
  setIp(fields, ['ip_dst', 'ipv6_dst'], ipDst);
  fields.nw_ttl = ttl;
  fields.ip_proto = protocol === undefined ? noNextHeader : ipProtocols[protocol];
  if (protocol === 'tcp' || protocol === 'udp' || protocol === 'sctp') {
    fields[`${protocol}_src`] = portSrc;
    fields[`${protocol}_dst`] = portDst;
  }
  if (protocol === 'tcp') fields.tcp_flags = tcpSteps[packet.tcpFlags ?? 'syn'].flags;
  if (protocol === 'icmp') Object.assign(fields, { icmp_type: icmpType, icmp_code: icmpCode });
  if (protocol !== 'icmp6') return;
  Object.assign(fields, { icmpv6_type: icmpType, icmpv6_code: icmpCode });
  if (packet.ndTarget) fields.nd_target = packet.ndTarget.value;
  if (packet.ndSll) fields.nd_sll = macNumber(packet.ndSll);
  if (packet.ndTll) fields.nd_tll = macNumber(packet.ndTll);
}

function setIp(fields: Values, [ipv4, ipv6]: readonly [KnownField, KnownField], ip: Ip | undefined): void {
  if (ip) fields[ip.family === 'ipv4' ? ipv4 : ipv6] = ip.value;
}

function macNumber(mac: Mac): number {
  return Number.parseInt(mac.replaceAll(':', ''), 16);
}

/** Header fields that both the model and the interpreter give for a packet that leaves, as one line. */
export function leavingFields(state: PacketState, names: readonly KnownField[]): string {
  return names.map((name) => `${name}=${state.get(name)}`).join(' ');
}

/** Compiled flows and groups as the bytes that a bridge holds. */
export function installedFlows({ flows, groups }: { readonly flows: readonly Flow[]; readonly groups: readonly Group[] }): FlowsInMemory {
  const owner = ownerOf('node');
  const entries = [...encodeBridgeEntries(owner, { ...nothing, flows, groups })];
  const isGroup = (key: BridgeKey): boolean => key.startsWith('G');
  const held = entries.filter(([key]) => !isGroup(key)).map(([key, value]): InstalledFlow => decodeFlowEntry(key, value));
  const buckets = entries.filter(([key]) => isGroup(key)).map(([, value]) => decodeGroupMod(groupMessage(value)));
  return new FlowsInMemory(held, new Map(buckets.map(({ id, buckets: all }) => [id, all.map(({ actions }) => actions)])));
}
