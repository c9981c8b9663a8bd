import { randomInt } from 'node:crypto';
import type { NodeProbes, ProbeEnd, SeenProbe, SentProbe, TraceDrop, TracedPacket, TraceOutcome } from '../../api/trace.ts';
import { idle } from '../../base/async/pause.ts';
import { TokenBucket } from '../../base/async/token-bucket.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Family, ipFromValue, parseIp } from '../../base/net/ip.ts';
import { macFromBytes } from '../../base/net/mac.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import type { ProbePacket } from '../../dataplane/packet-io/probe-frame.ts';
import { numberOf } from '../../dataplane/packet-io/repeated.ts';
import { type DropName, drops } from '../../dataplane/pipeline/drops.ts';
import { ctMark, reg } from '../../dataplane/pipeline/fields.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { endsAtBridge, withPort } from './family-trace.ts';
import type { HopNames } from './hop-text.ts';
import { isSentByKernel, type KernelPacket } from './kernel-paths.ts';
import { outerAddress, type PacketProbes, type ProbeSighting } from './packet-probes.ts';
import { probeEntry, unsentProbe } from './probe-sender.ts';
import { endsOf, type TracedEnds } from './trace-ends.ts';
import { hopNames, type NamingPort, namesOf, onwardOf, translatedBy } from './trace-node.ts';
import { addressIn, packetOf, tracedPacket } from './trace-packet.ts';
import type { TraceNode } from './trace-paths.ts';
import { type TraceQuestion, traceQuestion } from './trace-question.ts';

export interface ProbePort extends NamingPort {
  readonly probes: Pick<PacketProbes, 'send' | 'ended'>;
}

/** Source ports of probes: outside of the usual range of clients. */
const sourcePorts = { first: 20_000, count: 1_000 } as const;
/** Time until a probe has ended on its node, or arrived on the next one (ms). */
const ENDED_MS = 500;
const ARRIVED_MS = 1_000;
const NUMBERS = 0x1000;
/** Numbers follow each other: one that was drawn might be that of a probe of the last seconds, whose end a node still reports. */
let lastNumber = randomInt(NUMBERS);
const protocolNames: Readonly<Record<number, string>> = { 1: 'ICMP', 6: 'TCP', 17: 'UDP', 58: 'ICMPv6', 132: 'SCTP' };

/** Each probe changes an entry of connection tracking. */
const tokens = new TokenBucket({ perSecond: 5, burst: 10 });
/** Time for which a probe waits for its turn, and interval at which it tries (ms). */
const TURN = { withinMs: 3_000, everyMs: 100 } as const;
/** Maximum number of probes that wait. */
const WAITING_MAX = 16;
let waiting = 0;

/**
 * Sends a probe from a pod of this node, from the node, or in the name of a host outside: one for each family of both ends. Waits for its
 * end on this node.
 *
 * @param query that of a trace, and `size=full` for packets as large as pods send them
 * @throws SeineError `INVALID_INPUT` that names the field and the value, `UNAVAILABLE` if it had no turn: there are five a second
 */
export async function probedNode(port: ProbePort, query: URLSearchParams): Promise<NodeProbes> {
  const { environment, ipam } = port.running();
  const leases = ipam.leases();
  const hasSourcePort = query.has('source-port');
  if (!hasSourcePort) query.set('source-port', String(sourcePorts.first + randomInt(sourcePorts.count)));
  const question = traceQuestion(query, namesOf(port, environment, leases));
  if (question.protocol === 'sctp' && environment.blindToSctp)
    throw new SeineError('INVALID_INPUT', 'port: SCTP has no probes where connection tracking does not know its ports');
  const size = query.get('size') ?? 'small';
  if (size !== 'small' && size !== 'full')
    throw new SeineError('INVALID_INPUT', `size: ${JSON.stringify(size.slice(0, 40))} is neither small nor full`);
  const bytes = size === 'full' ? environment.gateway.mtu : undefined;
  const node = await naming(port, environment);
  const probes: SentProbe[] = [];
  for (const sent of question.families.flatMap((family) => endsOf(question, family))) {
    const ends = endsAtBridge(question, sent, translatedBy(port));
    const entry = probeEntry(question, ends, environment, node.onward);
    if ('unsent' in entry) {
      probes.push(unsentProbe(question, ends, protocolOf(question.protocol, ends.source.family), entry));
      continue;
    }
    await turnOfProbe();
    probes.push(
      await probed(port, node, { question: withPort(question, ends.port), ends, ...entry, ...(bytes !== undefined && { bytes }) }),
    );
  }
  return { node: port.config.nodeName, probes };
}

/** Waits until one more probe may be sent. @throws SeineError `UNAVAILABLE` if too many others are before it */
async function turnOfProbe(): Promise<void> {
  if (tokens.take()) return;
  if (waiting < WAITING_MAX) {
    waiting++;
    try {
      const late = AbortSignal.timeout(TURN.withinMs);
      while (!late.aborted) {
        await idle(TURN.everyMs, late);
        if (tokens.take()) return;
      }
    } finally {
      waiting--;
    }
  }
  throw new SeineError('UNAVAILABLE', 'more than five probes a second; repeat the command');
}

/** Waits for a probe of another node: `?number=…&peer=NODE`. @throws SeineError `INVALID_INPUT` */
export async function seenProbe(port: ProbePort, query: URLSearchParams): Promise<SeenProbe> {
  const number = Number(query.get('number') ?? 'none');
  if (!Number.isInteger(number) || number < 0 || number >= NUMBERS)
    throw new SeineError('INVALID_INPUT', `number: ${JSON.stringify(query.get('number'))} is not a number from 0 to ${NUMBERS - 1}`);
  const name = query.get('peer') ?? '';
  const peer = port.peers.get(name);
  if (!peer) throw new SeineError('INVALID_INPUT', `peer: ${JSON.stringify(name.slice(0, 253))} is no other node that this node knows`);
  const addresses = new Set(Object.values(peer.transport).map((address) => parseIp(address).text));
  const { environment } = port.running();
  const isOfPeer = ({ fields }: ProbeSighting): boolean =>
    fields.in_port === environment.tunnel.ofPort && addresses.has(outerAddress(fields, 'src')?.text ?? '');
  const sighting = await port.probes.ended(number, isOfPeer, ARRIVED_MS);
  return { node: port.config.nodeName, end: sighting ? endOf(await naming(port, environment), sighting) : null };
}

interface Naming {
  readonly names: HopNames;
  readonly environment: NodeEnvironment;
  readonly onward: TraceNode['onward'];
}

async function naming(port: ProbePort, environment: NodeEnvironment): Promise<Naming> {
  const { ipam } = port.running();
  const { ownerOf } = await port.reader.flowWords();
  return { names: hopNames(port, environment, ipam.leases(), ownerOf), environment, onward: onwardOf(port, environment) };
}

interface AskedProbe {
  readonly question: TraceQuestion;
  /** Ends of the packet as the bridge gets it. */
  readonly ends: TracedEnds;
  readonly ofPort: number;
  readonly bytes?: number;
}

async function probed(port: ProbePort, node: Naming, { question, ends, ofPort, bytes }: AskedProbe): Promise<SentProbe> {
  const startedMs = performance.now();
  const { family } = ends.source;
  const small = probePacket(port, node.environment, question, ends);
  if (!small) return unsent(ends);
  const first = { ...small, ...(bytes !== undefined && { bytes }) };
  const { packet, number, sighting } = await sentOnce(port, first, ofPort);
  const notes = [
    ...(packet === first
      ? []
      : [`the Service remembers its clients, but no probe: it went to the endpoint ${packet.to.text} port ${packet.port} itself`]),
    ...(sighting?.isKnown
      ? ['connection tracking knows a connection with this source port; repeat the command, or choose another --source-port']
      : []),
    ...(question.protocol === 'icmp' && family === 'ipv6'
      ? ['connection tracking keeps an entry of the IPv6 echo for up to a minute']
      : []),
  ];
  const milliseconds = Math.round(performance.now() - startedMs);
  return {
    family,
    number,
    packet: packetView(packet),
    ...(bytes !== undefined && { bytes }),
    end: sighting ? senderEnd(node, question, sighting) : null,
    notes,
    milliseconds,
  };
}

/** End of a probe of this node. The bridge drops packets of the node's processes that their kernel sends itself. */
function senderEnd(node: Naming, { from }: TraceQuestion, sighting: ProbeSighting): ProbeEnd {
  const end = endOf(node, sighting);
  if (!isSentByKernel(from, end.drop?.name, sighting.destination, node.environment)) return end;
  return { what: 'node', to: 'the node', table: end.table, packet: end.packet };
}

/** The sender would ask for the Ethernet address of the receiver first. */
function unsent(ends: TracedEnds): SentProbe {
  const [source, destination] = [ends.source.text, ends.destination.text];
  const { family } = ends.source;
  const notes = ['no probe was sent: the sender would ask for the Ethernet address of the receiver first, and no pod has it'];
  return { family, number: 0, packet: { protocol: 'ARP', source, destination, ttl: 0 }, end: null, notes, unsent: true, milliseconds: 0 };
}

function freshNumber(): number {
  lastNumber = (lastNumber + 1) % NUMBERS;
  return lastNumber;
}

/** Sends a probe and waits for its end; a second one to the endpoint, if the Service would remember the first. */
async function sentOnce({ probes }: ProbePort, packet: ProbePacket, ofPort: number) {
  const isOwn = ({ fields }: ProbeSighting): boolean => fields.in_port === ofPort;
  const number = freshNumber();
  await probes.send(ofPort, packet, number);
  const sighting = await probes.ended(number, isOwn, ENDED_MS);
  if (sighting?.detail !== 'affinity') return { packet, number, sighting };
  const direct = { packet: toEndpoint(packet, sighting), number: freshNumber() };
  await probes.send(ofPort, direct.packet, direct.number);
  return { ...direct, sighting: await probes.ended(direct.number, isOwn, ENDED_MS) };
}

/** Returns the packet that a trace interprets; undefined if the sender asks for an Ethernet address first. */
function probePacket(port: ProbePort, environment: NodeEnvironment, question: TraceQuestion, ends: TracedEnds): ProbePacket | undefined {
  const state = PacketState.of(packetOf({ ...question, isEstablished: false }, ends, environment, port.running().ipam.leases()));
  const { protocol } = tracedPacket(state);
  const isAsking = protocol === 'ARP' || (protocol === 'ICMPv6' && state.get('nw_ttl') === 255n);
  if (isAsking) return undefined;
  const mac = (field: 'eth_src' | 'eth_dst') => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(state.get(field));
    return macFromBytes(bytes.subarray(2));
  };
  return {
    source: mac('eth_src'),
    nextHop: mac('eth_dst'),
    from: addressIn(state, 'src'),
    to: addressIn(state, 'dst'),
    protocol: question.protocol,
    sourcePort: question.sourcePort,
    port: question.port ?? 0,
  };
}

/** Returns the packet as it goes to the endpoint that the Service has chosen; its address and port are in registers. */
function toEndpoint(packet: ProbePacket, { fields }: ProbeSighting): ProbePacket {
  const port = numberOf(fields.reg4) & 0xffff;
  if (packet.to.family === 'ipv4') return { ...packet, to: ipFromValue('ipv4', BigInt(numberOf(fields.reg3))), port };
  const words = [fields.reg12, fields.reg13, fields.reg14, fields.reg15].map((each) => BigInt(numberOf(each)));
  return {
    ...packet,
    to: ipFromValue(
      'ipv6',
      words.reduce((sum, word) => (sum << 32n) | word, 0n),
    ),
    port,
  };
}

function packetView({ from, to, protocol, sourcePort, port }: ProbePacket): TracedPacket {
  return {
    ...{ protocol: protocolOf(protocol, from.family), source: from.text, destination: to.text, ttl: 64 },
    ...(protocol !== 'icmp' && { sourcePort, destinationPort: port }),
  };
}

function protocolOf(protocol: ProbePacket['protocol'], family: Family): string {
  return protocol === 'icmp' && family === 'ipv6' ? 'ICMPv6' : protocol.toUpperCase();
}

function endOf({ names, environment, onward }: Naming, sighting: ProbeSighting): ProbeEnd {
  const { detail, fields } = sighting;
  const table = tableName(sighting.table) ?? String(sighting.table);
  const packet = seenPacket(sighting);
  if (detail === 'tunnel') {
    const outer = outerAddress(fields, 'dst');
    return { what: 'tunnel', to: names.peerAt(outer?.text ?? '') ?? 'a node', table, packet };
  }
  if (detail === 'output') {
    const port = outputPort(sighting);
    if (port !== environment.gateway.ofPort) return { what: 'pod', to: names.port(port), table, packet };
    const path = onward(kernelPacketOf(sighting));
    return { what: 'node', to: names.port(port), table, packet, ...(path && { onward: path }) };
  }
  return { ...dropped(detail, table, packet), table };
}

const transports: Readonly<Record<number, KernelPacket['transport']>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

function kernelPacketOf({ source, destination, protocol, destinationPort }: ProbeSighting): KernelPacket {
  const transport = transports[protocol];
  return { source, destination, ...(transport && destinationPort !== undefined && { transport, port: destinationPort }) };
}

/** A packet of a hairpin connection leaves by the port where it came in. */
function outputPort({ fields }: ProbeSighting): number {
  const isHairpin = (numberOf(fields.ct_mark) & ctMark.hairpin('yes').mask) !== 0;
  return isHairpin && typeof fields.in_port === 'number' ? fields.in_port : numberOf(fields[`reg${reg.outPort(0).reg}` as 'reg1']);
}

function dropped(detail: string, table: string, packet: TracedPacket): TraceOutcome {
  const spec = detail in drops ? drops[detail as DropName] : undefined;
  const unknown = { message: 'A flow ended the packet', cause: 'A flow of another release', remedy: '`seinectl diff`' };
  const { message, cause, remedy } = spec ?? unknown;
  const drop: TraceDrop = { table, name: spec ? detail : 'unknown', message, cause, remedy, packets: null };
  return { what: 'dropped', to: drop.name, packet, drop };
}

function seenPacket({ protocol, source, destination, sourcePort, destinationPort }: ProbeSighting): TracedPacket {
  return {
    ...{ protocol: protocolNames[protocol] ?? String(protocol), source: source.text, destination: destination.text, ttl: 64 },
    ...(destinationPort !== undefined && { destinationPort, ...(sourcePort !== undefined && { sourcePort }) }),
  };
}
