import type { ConnectionPolicyView } from '../../api/policy.ts';
import type {
  FamilyTrace,
  TraceDifference,
  TraceDrop,
  TracedPacket,
  TraceHop,
  TraceOnward,
  TraceOutcome,
  TracePath,
} from '../../api/trace.ts';
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
  /** Decision of policies about a packet as it is sent, and as it leaves; absent where a trace has none. */
  readonly policyFor?: (sent: TracedPacket, leaving: TracedPacket) => ConnectionPolicyView | undefined;
}

/** Endpoints whose paths are computed; a Service may have thousands. */
const ENDPOINTS_MAX = 64;

const reasons = new Map(Object.entries(packetInReason).map(([name, number]) => [number as number, name]));

/** Packet of which paths are computed. */
interface PathsQuestion {
  /** First packet of the connection, if the traced packet is a later one. */
  readonly established?: WalkedFields;
  /** True if the source port is an example: endpoints of every other source port have paths, too. */
  readonly anySourcePort?: true;
  /** Decision of policies about a packet as it leaves. */
  readonly policyFor?: (leaving: TracedPacket) => ConnectionPolicyView | undefined;
}

/** Paths of a packet on this node. */
export type TracedPaths = Pick<FamilyTrace, 'paths' | 'moreEndpoints' | 'choice'>;

/** Computes what the bridge, and the flows that the agent wants, do with a packet: once for each endpoint that a Service may choose. */
export async function tracePaths(node: TraceNode, packet: WalkedFields, question: PathsQuestion = {}): Promise<TracedPaths> {
  const { established, anySourcePort, policyFor } = question;
  const first = await walkBucket(node.bridge, { packet, established, hasOthers: true }, 0);
  const others = first.choice?.others ?? [];
  const own = { packet, established, buckets: Math.max(1, first.choice?.buckets ?? 1) };
  const groups = [
    own,
    ...(anySourcePort ? others : []).map(({ sourcePort, buckets }) => ({
      packet: fromPort(packet, sourcePort),
      established: established && fromPort(established, sourcePort),
      buckets,
    })),
  ];
  const paths = new Map<string, TracePath>();
  let walked = 0;
  for (const group of groups)
    for (let bucket = 0; bucket < group.buckets && walked < ENDPOINTS_MAX; bucket++, walked++) {
      const bridge = walked === 0 ? first : await walkBucket(node.bridge, group, bucket);
      // The same bucket, wherever it is in the group that the agent wants.
      const desired = await walkBucket(node.desired, group, bucket, bridge.choice?.taken);
      const path = pathOf(node, group.packet, bridge, desired);
      const policy = policyFor?.(path.bridge.packet);
      addPath(paths, policy ? { ...path, policy } : path);
    }
  const endpoints = groups.reduce((sum, { buckets }) => sum + buckets, 0);
  const ofOthers = anySourcePort ? 0 : others.reduce((sum, { buckets }) => sum + buckets, 0);
  return {
    paths: [...paths.values()],
    moreEndpoints: endpoints - walked,
    ...(first.choice && { choice: { endpoints, ofOtherSourcePorts: ofOthers } }),
  };
}

/** Packet whose way has a group. */
interface WalkedGroup {
  readonly packet: WalkedFields;
  /** First packet of the connection, if the traced packet is a later one. */
  readonly established?: WalkedFields | undefined;
  /** True to look for the groups of other source ports. */
  readonly hasOthers?: boolean;
}

/** Walks to one bucket of the group. @param taken the bucket as text, if its number in this group may be another */
async function walkBucket(
  source: FlowSource,
  { packet, established, hasOthers = false }: WalkedGroup,
  bucket: number,
  taken?: string,
): Promise<WalkedPacket> {
  const choose = (_: number, buckets: number, texts: readonly string[]): number => {
    const at = taken === undefined ? -1 : texts.indexOf(taken);
    return at < 0 ? bucket % buckets : at;
  };
  const opening = new AssumedConnections();
  if (!established) return await walkPacket(source, packet, { tracking: opening, choose, hasOthers });
  // The connection is as its first packet would leave it.
  const { choice } = await walkPacket(source, established, { tracking: opening, choose, hasOthers });
  const later = await walkPacket(source, packet, { tracking: new AssumedConnections(opening.established()), choose });
  return { ...later, ...(choice && { choice }) };
}

const sourcePortFields = ['tcp_src', 'udp_src', 'sctp_src'] as const;

function fromPort(packet: WalkedFields, sourcePort: number): WalkedFields {
  const field = sourcePortFields.find((each) => packet[each] !== undefined);
  return field ? { ...packet, [field]: sourcePort } : packet;
}

/** Adds the path of an endpoint. Those that are treated alike in all that a trace shows share one. */
function addPath(paths: Map<string, TracePath>, path: TracePath): void {
  const { hops, bridge, desired, difference, policy, endpoints } = path;
  const key = JSON.stringify([
    hops.map(({ table }) => table),
    [bridge, desired].map(({ what, to, drop }) => [what, to, drop?.name]),
    difference,
    policy?.ends.map(({ verdict, why, by }) => [verdict, why, by]),
    // Another node may treat each endpoint differently.
    leavesNode(path) ? endpoints : [],
  ]);
  const known = paths.get(key);
  paths.set(key, known ? { ...known, endpoints: [...new Set([...known.endpoints, ...endpoints])] } : path);
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
  const text = (hop: WalkHop | undefined): string | null => (hop?.flow ? `${node.flowText(hop.flow)}${bucketsText(hop)}` : null);
  const flow = wanted?.flow ?? present?.flow;
  return {
    table: nameOf((wanted ?? present)?.table ?? 0),
    desired: text(wanted),
    bridge: text(present),
    owner: (flow && node.names.owner(flow.cookie)) ?? null,
  };
}

/** Reports whether two walks visit a table with equal flows, and groups of equal buckets. */
export function isSameHop(a: WalkHop, b: WalkHop | undefined): boolean {
  if (!b || a.table !== b.table || a.flow?.priority !== b.flow?.priority) return false;
  if (!a.flow || !b.flow) return true;
  return areEqual(a.flow.instructions, b.flow.instructions) && haveEqualBuckets(a, b);
}

function haveEqualBuckets({ buckets: a }: WalkHop, { buckets: b }: WalkHop): boolean {
  return a?.size === b?.size && [...(a ?? [])].every((bucket) => b?.has(bucket));
}

function bucketsText({ buckets }: WalkHop): string {
  return buckets ? `, to a group of ${buckets.size} different buckets` : '';
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
