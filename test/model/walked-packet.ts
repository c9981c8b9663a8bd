import type { PacketOutput, WalkedPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import type { KnownField } from '../../src/dataplane/flow-walk/packet-state.ts';
import type { Group } from '../../src/dataplane/pipeline/flow.ts';
import { tableName } from '../../src/dataplane/pipeline/tables.ts';
import { packetInReason } from '../../src/dataplane/pipeline/well-known.ts';
import type { Tracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { leavingFields, walkFieldsOf } from '../support/walk-fields.ts';
import type { Arrival } from './conversation.ts';
import { type compileScene, exampleScene, type Scene } from './scene.ts';

/** Fields that a receiver sees. */
const compared = [
  ...(['eth_src', 'eth_dst', 'ip_src', 'ip_dst', 'ipv6_src', 'ipv6_dst', 'nw_ttl', 'tcp_dst', 'udp_dst', 'sctp_dst'] as const),
  ...(['arp_op', 'arp_spa', 'arp_tpa', 'arp_sha', 'arp_tha'] as const),
];

const tunnelled = ['tun_src', 'tun_dst', 'tun_ipv6_src', 'tun_ipv6_dst'] as const;

function modelled(output: Output): string {
  const { to, packet } = output;
  return `${to}: ${fieldsOf(packet, to === exampleScene.node.tunnel.ofPort ? [...compared, ...tunnelled] : compared)}`;
}

function fieldsOf(packet: Packet, names: readonly KnownField[]): string {
  const values = walkFieldsOf(0, packet);
  return names.map((name) => `${name}=${BigInt(values[name] ?? 0n)}`).join(' ');
}

function interpreted({ to, packet }: PacketOutput, inPort: number): string {
  const reason = (userdata: Uint8Array) => Object.entries(packetInReason).find(([, number]) => number === userdata[0])?.[0];
  const port = typeof to === 'object' ? `agent: ${reason(to.agent)}` : to === 'inPort' ? inPort : to === 'learning' ? 'flood' : to;
  // At other ports a packet leaves without its outer addresses.
  const outer = to === exampleScene.node.tunnel.ofPort ? tunnelled : [];
  return `${port}: ${leavingFields(packet, [...compared, ...outer])}`;
}

/** Path and outputs of a packet, in lines. */
export interface PacketFate {
  readonly tables: string;
  readonly outputs: string;
}

/** Fate of a packet by the model of a switch. */
export function modelledFate(
  scene: Scene,
  compiled: ReturnType<typeof compileScene>,
  { inPort, packet }: Arrival,
  { tracker, choice = 0 }: { readonly tracker: Tracker; readonly choice?: number },
): PacketFate {
  const choose = ({ buckets }: Group) => choice % buckets.length;
  const walk = new SwitchModel({ ...compiled, tracker, choose, tunnelPort: scene.node.tunnel.ofPort }).receive(inPort, packet);
  return { tables: walk.tables.join(' '), outputs: walk.outputs.map(modelled).join('\n') };
}

/** Fate of a packet by the interpreter of flows; unreadable flows are its outputs. */
export function interpretedFate({ hops, outputs, unreadable }: WalkedPacket, inPort: number): PacketFate {
  const tables = hops.map(({ table }) => tableName(table)).join(' ');
  return { tables, outputs: unreadable ?? outputs.map((each) => interpreted(each, inPort)).join('\n') };
}
