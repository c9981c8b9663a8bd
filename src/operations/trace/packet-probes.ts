import { bytesOf } from '../../base/bytes/bytes.ts';
import { type Ip, ipFromBytes, ipFromValue } from '../../base/net/ip.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { type ProbePacket, probeFrame } from '../../dataplane/packet-io/probe-frame.ts';
import { type QuotablePacket, readQuotable } from '../../dataplane/packet-io/quotable-packet.ts';
import { numberOf } from '../../dataplane/packet-io/repeated.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { load, resubmit } from '../../dataplane/pipeline/flow.ts';
import { ofPorts, packetInReason, zones } from '../../dataplane/pipeline/well-known.ts';
import { toActions } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import { type ConntrackMatch, type ConntrackTuple, writeConntrackFlush } from '../../openflow/conntrack-flush.ts';
import type { Match } from '../../openflow/match/match.ts';
import { type PacketIn, writePacketOut } from '../../openflow/packet.ts';

/** End of a probe on this node, as the bridge sent it to the agent. */
export interface ProbeSighting {
  readonly number: number;
  readonly table: number;
  /** Name of a drop, or `output`, `tunnel`, `affinity`: the flow's text; of another flow, the name of its reason. */
  readonly detail: string;
  readonly fields: Match;
  /** The packet at that place. */
  readonly source: Ip;
  readonly destination: Ip;
  readonly protocol: number;
  readonly sourcePort?: number;
  readonly destinationPort?: number;
  /** True if connection tracking had its connection before. */
  readonly isKnown: boolean;
  readonly atMs: number;
}

/** Maximum number of sightings that are kept, and for how long (ms): `seinectl` asks the next node within a second or two. */
const SIGHTINGS_MAX = 128;
const SIGHTING_MS = 15_000;

const numberMask = reg.probeNumber(0).mask;
const NEW = 1;
const TRACKED = 32;
const ICMP = 1;
const ICMPV6 = 58;
/** RFC 792. */
const ECHO_REQUEST = 8;
/** Names of the drops of flows that send packets to the agent for another reason than a probe. */
const namesOfReasons: Readonly<Record<number, string>> = {
  [packetInReason.noEndpoint]: 'service.noEndpoint',
  [packetInReason.halfOpen]: 'connection.halfOpen',
  [packetInReason.untranslated]: 'service.untranslated',
  [packetInReason.unservedPort]: 'service.unservedPort',
  [packetInReason.timeExceeded]: 'ttl',
  [packetInReason.refused]: 'policy.refused',
};

interface PacketProbesOptions {
  readonly packets: PacketExchange;
  /** Reports that messages could not be sent. */
  readonly failed: (thrown: unknown) => void;
}

/**
 * Sends probes of `seinectl trace`, and receives those that end on this node. A probe that opened a connection in connection tracking is
 * forgotten there: exactly its tuple is deleted, unless the connection was there before the probe. An IPv6 echo is not: its entry expires
 * within a minute (`writeConntrackFlush`).
 */
export class PacketProbes {
  readonly #options: PacketProbesOptions;
  #sightings: ProbeSighting[] = [];
  readonly #waiting = new Set<() => void>();
  /** Tuples of probes from this node, as they were sent, by number. */
  readonly #sent = new Map<number, ConntrackTuple>();
  /** Tuples of connections of probes that were deleted in the last seconds, with the time. */
  readonly #forgotten = new Map<string, number>();
  #seen = 0;

  constructor(options: PacketProbesOptions) {
    this.#options = options;
    options.packets.on('probe', (packet) => this.#receive(packet));
  }

  /** Number of probes that ended here. */
  get seen(): number {
    return this.#seen;
  }

  /** Reports whether a connection that ended was that of a probe. */
  hasForgotten(protocol: number, source: TupleEnd, asked: TupleEnd): boolean {
    const tuple = { src: source.ip, dst: asked.ip, srcPort: source.port, dstPort: asked.port };
    const atMs = this.#forgotten.get(tupleKey(protocol, tuple));
    return atMs !== undefined && performance.now() - atMs < SIGHTING_MS;
  }

  /** Sends a probe as if its port had received it. @param number 12 bits, which distinguish it from other probes of these seconds */
  async send(inPort: number, packet: ProbePacket, number: number): Promise<void> {
    const { from: src, to: dst, protocol, sourcePort: srcPort, port: dstPort } = packet;
    this.#sent.set(number, protocol === 'icmp' ? echoTuple(src, dst, srcPort) : { src, dst, srcPort, dstPort });
    const [oldest] = this.#sent.keys();
    if (this.#sent.size > SIGHTINGS_MAX && oldest !== undefined) this.#sent.delete(oldest);
    const data = probeFrame(packet);
    const actions = toActions([load(reg.probe('yes')), load(reg.probeNumber(number)), resubmit('classify')]);
    await this.#options.packets.send([bytesOf((w) => writePacketOut(w, { fields: { in_port: inPort }, actions, data }))]);
  }

  /**
   * Waits for the end of a probe on this node.
   *
   * @param isIt distinguishes it from probes of other nodes with the same number
   * @returns undefined if it did not end in time
   */
  async ended(number: number, isIt: (sighting: ProbeSighting) => boolean, timeoutMs: number): Promise<ProbeSighting | undefined> {
    const find = (): ProbeSighting | undefined => this.#sightings.findLast((each) => each.number === number && isIt(each));
    const found = find();
    if (found) return found;
    const { promise, resolve } = Promise.withResolvers<ProbeSighting | undefined>();
    const look = (): void => {
      const seen = find();
      if (seen) resolve(seen);
    };
    this.#waiting.add(look);
    const timer = setTimeout(() => resolve(undefined), timeoutMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
    }
  }

  #receive(packetIn: PacketIn): void {
    const sighting = sightingOf(packetIn);
    if (!sighting) return;
    this.#seen++;
    const recent = this.#sightings.filter(({ atMs }) => sighting.atMs - atMs < SIGHTING_MS);
    this.#sightings = [...recent.slice(1 - SIGHTINGS_MAX), sighting];
    if (!sighting.isKnown) this.#forget(sighting);
    for (const look of this.#waiting) look();
  }

  #remember(key: string): void {
    this.#forgotten.delete(key);
    this.#forgotten.set(key, performance.now());
    const [oldest] = this.#forgotten.keys();
    if (this.#forgotten.size > SIGHTINGS_MAX && oldest !== undefined) this.#forgotten.delete(oldest);
  }

  /** Deletes the connection of a probe as it was opened, and that of its translated source. */
  #forget(sighting: ProbeSighting): void {
    const { number, protocol, source, fields } = sighting;
    if (protocol === ICMPV6) return;
    const { main, snat } = zones[source.family];
    const header = headerTuple(sighting);
    const isFromTunnel = outerAddress(fields, 'src') !== undefined && fields.in_port === ofPorts.tunnel;
    const sent = isFromTunnel ? undefined : this.#sent.get(number);
    if (sent) this.#sent.delete(number);
    const opened = sent ?? header;
    this.#remember(tupleKey(protocol, opened));
    const messages: readonly ConntrackMatch[] = [
      { zone: main, ipProtocol: protocol, original: opened },
      // The second zone sees the translated destination and the original source.
      ...(sent?.src && sent.src.text !== source.text ? [{ zone: snat, ipProtocol: protocol, original: { ...header, src: sent.src } }] : []),
    ];
    this.#options.packets.send(messages.map((match) => bytesOf((w) => writeConntrackFlush(w, match)))).catch(this.#options.failed);
  }
}

interface TupleEnd {
  readonly ip: Ip;
  /** Absent for echoes. */
  readonly port?: number;
}

function tupleKey(
  protocol: number,
  { src, dst, srcPort, dstPort }: { readonly [M in keyof ConntrackTuple]: ConntrackTuple[M] | undefined },
): string {
  return `${protocol} ${src?.text} ${srcPort} ${dst?.text} ${dstPort}`;
}

function sightingOf({ table, fields, userdata, data }: PacketIn): ProbeSighting | undefined {
  const packet = readQuotable(data);
  if (!packet) return undefined;
  const state = numberOf(fields.ct_state);
  const [first = 0, ...text] = userdata ?? [];
  const isPorted = packet.protocol !== ICMP && packet.protocol !== ICMPV6 && packet.payload.length >= 4;
  return {
    number: numberOf(fields.reg11) & numberMask,
    table,
    detail: namesOfReasons[first] ?? Buffer.from(text).toString('latin1'),
    fields,
    ...endsOf(packet),
    protocol: packet.protocol,
    ...(isPorted && { sourcePort: packet.payload.readUInt16BE(0), destinationPort: packet.payload.readUInt16BE(2) }),
    ...(!isPorted && packet.payload.length >= 8 && { sourcePort: packet.payload.readUInt16BE(4) }),
    isKnown: (state & TRACKED) !== 0 && (state & NEW) === 0,
    atMs: performance.now(),
  };
}

function endsOf({ source, destination }: QuotablePacket): Pick<ProbeSighting, 'source' | 'destination'> {
  return { source: ipFromBytes(source), destination: ipFromBytes(destination) };
}

function echoTuple(src: Ip, dst: Ip, id: number): ConntrackTuple {
  return { src, dst, icmp: { id, type: ECHO_REQUEST, code: 0 } };
}

/** Tuple of the packet as it is now. */
function headerTuple({ source: src, destination: dst, sourcePort = 0, destinationPort = 0, protocol }: ProbeSighting): ConntrackTuple {
  return protocol === ICMP ? echoTuple(src, dst, sourcePort) : { src, dst, srcPort: sourcePort, dstPort: destinationPort };
}

function fieldNumber(value: Match['ct_ipv6_src'] | Match['ct_nw_src']): bigint | undefined {
  if (value === undefined) return undefined;
  return BigInt(typeof value === 'object' ? value.value : value);
}

/** Returns the outer destination of a probe that leaves through the tunnel, or the outer source of one that came from it. */
export function outerAddress(fields: Match, end: 'src' | 'dst'): Ip | undefined {
  const [ipv4, ipv6] = [fieldNumber(fields[`tun_${end}`]), fieldNumber(fields[`tun_ipv6_${end}`])];
  if (ipv4) return ipFromValue('ipv4', ipv4);
  return ipv6 ? ipFromValue('ipv6', ipv6) : undefined;
}
