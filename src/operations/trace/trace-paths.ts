import type { FamilyTrace, TraceDifference, TraceDrop, TraceHop, TraceOnward, TraceOutcome, TracePath } from '../../api/trace.ts';
import { AssumedConnections } from '../../dataplane/flow-walk/assumed-tracking.ts';
import { type WalkedPacket, type WalkHop, walkPacket } from '../../dataplane/flow-walk/flow-walk.ts';
import type { FlowSource, InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { PacketState, type WalkedFields } from '../../dataplane/flow-walk/packet-state.ts';
import { dropOf, drops } from '../../dataplane/pipeline/drops.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { packetInReason } from '../../dataplane/pipeline/well-known.ts';
import { decodeMatch } from '../../openflow/match/match.ts';
import type { HopNames } from './hop-text.ts';
import { hopTexts } from './hop-text.ts';
import type { KernelPacket } from './kernel-paths.ts';
import { addressIn, portIn, tracedPacket, tunnelDestination } from './trace-packet.ts';

/** Names and flows that a trace needs. */
export interface TraceNode {
  readonly bridge: FlowSource;
  readonly desired: FlowSource;
  readonly names: HopNames;
  readonly gateway: number;
  readonly tunnel: number;
  /** Returns where the kernel sends a packet on that leaves by the gateway. */
  readonly onward: (packet: KernelPacket) => TraceOnward | undefined;
  readonly flowText: (flow: InstalledFlow) => string;
}

/** Endpoints whose paths are computed; a Service may have thousands. */
const ENDPOINTS_MAX = 64;

const reasons = new Map(Object.entries(packetInReason).map(([name, number]) => [number as number, name]));

/**
 * Computes what the bridge, and the flows that the agent wants, do with a packet: once for each endpoint that a Service may choose.
 *
 * @param established first packet of the connection, if the traced packet is a later one
 */
export async function tracePaths(
  node: TraceNode,
  packet: WalkedFields,
  { established }: { readonly established?: WalkedFields } = {},
): Promise<Pick<FamilyTrace, 'paths' | 'moreEndpoints'>> {
  const walk = async (source: FlowSource, choice: number): Promise<WalkedPacket> => {
    const choose = (_: number, buckets: number): number => choice % buckets;
    const opening = new AssumedConnections();
    if (!established) return await walkPacket(source, packet, { tracking: opening, choose });
    // The connection is as its first packet would leave it.
    const { choices } = await walkPacket(source, established, { tracking: opening, choose });
    const later = await walkPacket(source, packet, { tracking: new AssumedConnections(opening.established()), choose });
    return { ...later, ...(choices !== undefined && { choices }) };
  };
  const first = await walk(node.bridge, 0);
  const all = Math.max(1, first.choices ?? 1);
  const paths = new Map<string, TracePath>();
  for (let choice = 0; choice < Math.min(all, ENDPOINTS_MAX); choice++) {
    const bridge = choice === 0 ? first : await walk(node.bridge, choice);
    const path = pathOf(node, packet, bridge, await walk(node.desired, choice));
    const key = JSON.stringify([
      path.hops.map(({ table }) => table),
      path.bridge.what,
      path.bridge.to,
      path.bridge.drop?.name,
      path.desired.what,
      // Another node may treat each endpoint differently.
      leavesNode(path) ? path.endpoints : [],
    ]);
    const known = paths.get(key);
    paths.set(key, known ? { ...known, endpoints: [...new Set([...known.endpoints, ...path.endpoints])] } : path);
  }
  return { paths: [...paths.values()], moreEndpoints: Math.max(0, all - ENDPOINTS_MAX) };
}

function leavesNode({ bridge, desired }: TracePath): boolean {
  return [bridge, desired].some(({ what, onward }) => what === 'tunnel' || onward !== undefined);
}

function pathOf(node: TraceNode, packet: WalkedFields, bridge: WalkedPacket, desired: WalkedPacket): TracePath {
  const texts = hopTexts(bridge, node.names);
  const difference = differenceOf(node, bridge, desired);
  return {
    endpoints: endpointsOf(PacketState.of(packet), bridge),
    hops: bridge.hops.map(
      ({ table, flow }, at): TraceHop => ({
        table: nameOf(table),
        text: texts[at] ?? '',
        flow: flow ? node.flowText(flow) : null,
        owner: (flow && node.names.owner(flow.cookie)) ?? null,
      }),
    ),
    bridge: outcomeOf(node, bridge),
    desired: outcomeOf(node, desired),
    ...(difference && { difference }),
  };
}

function nameOf(table: number): string {
  return tableName(table) ?? String(table);
}

/** Returns the destination to which a Service translates the packet. */
function endpointsOf(sent: PacketState, { outputs, hops }: WalkedPacket): readonly string[] {
  const last = outputs.at(-1)?.packet ?? hops.at(-1)?.packet;
  if (!last) return [];
  const text = (packet: PacketState): string => `${addressIn(packet, 'dst').text}:${portIn(packet, 1) ?? 0}`;
  return text(sent) === text(last) ? [] : [text(last)];
}

/** Returns the first hop at which the bridge does not have the flow that the agent wants. */
function differenceOf(node: TraceNode, bridge: WalkedPacket, desired: WalkedPacket): TraceDifference | undefined {
  const at = desired.hops.findIndex((wanted, index) => !isSameHop(wanted, bridge.hops[index]));
  const [wanted, present] = at < 0 ? [undefined, bridge.hops[desired.hops.length]] : [desired.hops[at], bridge.hops[at]];
  if (!wanted && !present) return undefined;
  const text = (hop: WalkHop | undefined): string | null => (hop?.flow ? node.flowText(hop.flow) : null);
  const flow = wanted?.flow ?? present?.flow;
  return {
    table: nameOf((wanted ?? present)?.table ?? 0),
    desired: text(wanted),
    bridge: text(present),
    owner: (flow && node.names.owner(flow.cookie)) ?? null,
  };
}

/** Reports whether two walks visit a table with equal flows. */
export function isSameHop(a: WalkHop, b: WalkHop | undefined): boolean {
  if (!b || a.table !== b.table || a.flow?.priority !== b.flow?.priority) return false;
  return !a.flow || !b.flow || areEqual(a.flow.instructions, b.flow.instructions);
}

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

function outcomeOf(node: TraceNode, walked: WalkedPacket): TraceOutcome {
  const { hops, outputs, unreadable } = walked;
  const last = hops.at(-1);
  if (!last) return { what: 'unreadable', to: 'the bridge has no tables', packet: tracedPacket(PacketState.of({})) };
  if (unreadable !== undefined) return { what: 'unreadable', to: unreadable, packet: tracedPacket(last.packet) };
  for (const { to, packet } of outputs.toReversed())
    if (typeof to !== 'object') return sent(node, to === 'inPort' ? Number(packet.get('in_port')) : to, packet);
  const drop = dropAt(last);
  // A copy for the log of denied packets is no answer.
  const answered = outputs.findLast(({ to }) => typeof to === 'object' && reasons.get(to.agent[0] ?? 0) !== 'denied');
  if (answered && typeof answered.to === 'object')
    return { what: 'answered', to: reasons.get(answered.to.agent[0] ?? 0) ?? 'the agent', packet: tracedPacket(answered.packet), drop };
  return { what: 'dropped', to: drop.name, packet: tracedPacket(last.packet), drop };
}

function sent({ names, gateway, tunnel, onward: onwardOf }: TraceNode, to: number | 'learning', packet: PacketState): TraceOutcome {
  const leaving = tracedPacket(packet);
  const { tunnel: _outer, ...inner } = leaving;
  if (to === tunnel) return { what: 'tunnel', to: names.peerAt(tunnelDestination(packet)?.text ?? '') ?? 'a node', packet: leaving };
  if (to === gateway) {
    const onward = onwardOf(kernelPacket(packet));
    return { what: 'node', to: names.port(to), packet: inner, ...(onward && { onward }) };
  }
  return { what: 'pod', to: to === 'learning' ? 'every port' : names.port(to), packet: inner };
}

const transportsByNumber: Readonly<Record<number, KernelPacket['transport']>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

function kernelPacket(packet: PacketState): KernelPacket {
  const transport = transportsByNumber[Number(packet.get('ip_proto'))];
  const ends = { source: addressIn(packet, 'src'), destination: addressIn(packet, 'dst') };
  return transport ? { ...ends, transport, port: portIn(packet, 1) ?? 0 } : ends;
}

function dropAt({ table, flow }: WalkHop): TraceDrop {
  const place = tableName(table);
  const fields = flow ? Object.keys(decodeMatch(flow.match)) : [];
  const name = place && dropOf({ table: place, fields, ...(flow && { priority: flow.priority }) });
  const packets = flow?.packets === undefined ? null : flow.packets.toString();
  if (!name)
    return {
      table: nameOf(table),
      name: 'unknown',
      message: 'No flow forwards the packet',
      cause: 'A flow is missing',
      remedy: '`seinectl diff`',
      packets,
    };
  const { message, cause, remedy } = drops[name];
  return { table: nameOf(table), name, message, cause, remedy, packets };
}
