import { TokenBucket } from '../../base/async/token-bucket.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { numberOf, repeated } from '../../dataplane/packet-io/repeated.ts';
import { readTcpFrame, type TcpFrame, type TcpTuple, turned } from '../../dataplane/packet-io/tcp-frame.ts';
import { ctMark, reg } from '../../dataplane/pipeline/fields.ts';
import { load, resubmit } from '../../dataplane/pipeline/flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import { toActions } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import type { Action } from '../../openflow/actions/action.ts';
import { writeConntrackFlush } from '../../openflow/conntrack-flush.ts';
import type { Match } from '../../openflow/match/match.ts';
import { type PacketIn, writePacketOut } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';
import { refuse } from '../compile/refusal.ts';

/** Rate and burst of packets that are handled; clients send again. */
const rate = { perSecond: 200, burst: 500 } as const;
/** Maximum number of probes that wait for their reply; the oldest is abandoned. */
const probesMax = 256;
/** Maximum number of SYNs that were sent again and may still be reset; the oldest is abandoned. */
const openingsMax = 256;
/**
 * Time for which a reset is expected (ms). It answers the server's challenge ACK, which answers the SYN: a round trip, plus the agent's
 * delay.
 */
const openingMs = 3_000;
const TCP = 6;
const SYN = 0x02;
/** Bits of ct_state. Source: ovs-fields(7) "ct_state". */
const translated = { src: 64, dst: 128 } as const;

/** Packet that connection tracking considers invalid although it knows its connection, with its state at that time. */
interface Refused {
  readonly data: Uint8Array;
  readonly fields: Match;
  readonly frame: TcpFrame;
}

/** SYN that was sent again, as a message to OVS. */
interface Opening {
  readonly atMs: number;
  readonly message: Uint8Array;
}

/**
 * Deletes tracked connections whose client connects again (`dataplane/compile/compile-half-open.ts`).
 *
 * Connection tracking finds a connection by the server address that its client used. For a Service, the packet that arrives here is
 * translated, and only connection tracking knows the original: the agent injects a reply that no server sent, which comes back translated.
 */
export class HalfOpenConnections {
  readonly #packets: PacketExchange;
  readonly #log: Log;
  readonly #tokens = new TokenBucket(rate);
  readonly #probes = new Map<number, Refused>();
  /** SYNs by the server address that the client used. */
  readonly #openings = new Map<string, Opening>();
  #lastProbe = 0;
  #forgotten = 0;
  #suppressed = 0;

  constructor(packets: PacketExchange, log: Log) {
    this.#packets = packets;
    this.#log = log;
    packets.on('halfOpen', (packet) => this.#receive(packet));
  }

  get counters(): { readonly forgotten: number; readonly suppressed: number } {
    return { forgotten: this.#forgotten, suppressed: this.#suppressed };
  }

  #receive({ data, fields }: PacketIn): void {
    const frame = readTcpFrame(data);
    if (!frame) return;
    if (holds(fields.reg0, reg.halfOpenProbe('sent'))) {
      const id = numberOf(fields.reg6);
      const refused = this.#probes.get(id);
      this.#probes.delete(id);
      if (refused) this.#forget(refused, turned(frame.tuple));
      return;
    }
    if (!this.#tokens.take()) {
      this.#suppressed++;
      return;
    }
    const state = numberOf(fields.ct_state);
    if (state & translated.dst) this.#probe({ data: data.slice(), fields, frame });
    // The server of a connection to a Service sends, with the Service's address by now.
    else this.#forget({ data, fields, frame }, state & translated.src ? turned(frame.tuple) : frame.tuple);
  }

  #probe(refused: Refused): void {
    const opening = Uint8Array.from(refused.data);
    opening[refused.frame.flagsAt] = SYN;
    const answer = refuse(opening);
    if (!answer) return;
    const [oldest] = this.#probes.keys();
    if (oldest !== undefined && this.#probes.size >= probesMax) this.#probes.delete(oldest);
    const id = (this.#lastProbe + 1) >>> 0;
    this.#lastProbe = id;
    this.#probes.set(id, refused);
    this.#send([packetOut({ in_port: ofPort.controller }, tracked(reg.halfOpenProbe('sent'), reg.probeId(id)), answer)]);
  }

  /** @param original address of the server as the client used it */
  #forget({ data, fields, frame }: Refused, original: TcpTuple): void {
    const { main, snat } = zones[original.src.family];
    const messages = [flush(main, original)];
    // A second entry has the translated source, for packets that have gone to the endpoint already.
    if (holds(fields.ct_mark, ctMark.snat('yes'))) messages.push(flush(snat, frame.tuple));
    const again = frame.isReset
      ? this.#takeOpening(original)
      : original.src.text === frame.tuple.src.text && once(fields, frame.tuple, original, data);
    if (again) messages.push(again);
    if (again && !frame.isReset) this.#keepOpening(original, again);
    this.#forgotten++;
    this.#log.debug('deleted a half-open connection', {
      client: `${original.src.text} ${original.srcPort}`,
      server: `${original.dst.text} ${original.dstPort}`,
    });
    this.#send(messages);
  }

  #keepOpening(original: TcpTuple, message: Uint8Array): void {
    const [oldest] = this.#openings.keys();
    if (oldest !== undefined && this.#openings.size >= openingsMax) this.#openings.delete(oldest);
    this.#openings.set(textOf(original), { atMs: performance.now(), message });
  }

  /**
   * Returns the SYN that this client's reset belongs to. It is sent again after the request to delete the connection, because the client's
   * own next one, milliseconds after its reset, may have passed already. Otherwise the next packet of the connection would be one of its
   * server, which would not be translated back. TCP accepts the same SYN twice (RFC 9293 section 3.10.7.4).
   */
  #takeOpening(original: TcpTuple): Uint8Array | undefined {
    const key = textOf(original);
    const opening = this.#openings.get(key);
    this.#openings.delete(key);
    return opening && performance.now() - opening.atMs <= openingMs ? opening.message : undefined;
  }

  #send(messages: readonly Uint8Array[]): void {
    this.#packets
      .send(messages)
      .catch((thrown: unknown) => this.#log.debug('a connection was not forgotten', { cause: SeineError.from(thrown, 'flush').message }));
  }
}

function textOf({ src, dst, srcPort, dstPort }: TcpTuple): string {
  return `${src.text} ${srcPort} ${dst.text} ${dstPort}`;
}

/** Returns the packet as its client sent it, from connection tracking on. If it is invalid then, it continues unchanged. */
function once(fields: Match, now: TcpTuple, original: TcpTuple, data: Uint8Array): Uint8Array | undefined {
  return repeated(fields, data, now.dst.text === original.dst.text ? [] : asSent(original));
}

/**
 * Restores the original packet. Connection tracking also changes a client's port where another of its connections to the same endpoint has
 * it.
 */
function asSent({ dst, srcPort, dstPort }: TcpTuple): readonly Action[] {
  const ports = { tcp_src: srcPort, tcp_dst: dstPort };
  return [
    setDestination(dst),
    ...(['tcp_src', 'tcp_dst'] as const).map((field): Action => ({ kind: 'setField', field, value: ports[field] })),
  ];
}

function setDestination({ family, value }: Ip): Action {
  return family === 'ipv4' ? { kind: 'setField', field: 'ip_dst', value: Number(value) } : { kind: 'setField', field: 'ipv6_dst', value };
}

function tracked(...marks: readonly Mark[]): readonly Action[] {
  return toActions([...marks.map(load), resubmit('track')]);
}

function packetOut(fields: Match, actions: readonly Action[], data: Uint8Array): Uint8Array {
  return bytesOf((w) => writePacketOut(w, { fields, actions, data }));
}

/** Request with both addresses and ports, with which OVS finds the connection without a search. */
function flush(zone: number, original: TcpTuple): Uint8Array {
  return bytesOf((w) => writeConntrackFlush(w, { zone, ipProtocol: TCP, original }));
}

function holds(value: Match['reg0'], { value: wanted, mask }: Mark): boolean {
  return (numberOf(value) & mask) >>> 0 === wanted;
}
