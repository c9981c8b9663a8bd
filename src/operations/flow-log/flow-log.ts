import type { FlowLosses, FlowSummaries, FlowVerdict } from '../../api/flow-log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import { protocolNames } from '../../policy/denied-log/denied-packet.ts';
import { FairShares } from '../../policy/denied-log/fair-shares.ts';
import type { PolicyMatrix } from '../../policy/matrix/matrix.ts';
import { RecordedOpenings, repeatedMs, tupleOf } from './recorded-openings.ts';
import type { FlowRecord, NumberedFlow, RecordedEnd } from './records/flow-record.ts';
import { FlowRing } from './records/flow-ring.ts';
import { FlowSummaryMinutes, type SummaryMinute } from './records/flow-summaries.ts';
import { LossTally } from './records/loss-tally.ts';
import { RecentNumbers } from './records/recent-numbers.ts';
import {
  type AddressNames,
  type ClosedConnection,
  type DeniedConnection,
  namedEnd,
  namedService,
  type SeenConnection,
} from './sources/attribution.ts';
import { KnownDecisions } from './sources/known-decisions.ts';
import type { LaterPacket, OpeningPacket } from './sources/seen-packet.ts';
import { firstOfBoth, firstOfOpening, numbersNow, payloadBytes } from './sources/tcp-bytes.ts';

/** Maximum number of denied connections for which repetitions are recognized. */
const recentMax = 4_096;
const TCP = 6;

export interface FlowLogOptions {
  /** Maximum number of recorded openings per second of this node. */
  readonly openings: number;
  /** Number of records in memory. */
  readonly records: number;
  readonly names: AddressNames;
  /** Returns the matrix of policies in force. */
  readonly matrix: () => PolicyMatrix;
  /** Returns a number that grows whenever the matrix may be another. */
  readonly matrixRevision: () => number;
  /** Returns why policies of a pod are not enforced, and what they deny passes; undefined if they are. @param pod `namespace/name` */
  readonly notEnforcedFor: (pod: string) => string | undefined;
  /** Called with each record. */
  readonly recorded?: (record: FlowRecord) => void;
  /** Wall clock (Unix time, ms), and milliseconds from any fixed moment, which never go back. */
  readonly clock: { readonly wallMs: () => number; readonly steadyMs: () => number };
}

/** Place from which a packet came. */
type EntryPoint = 'pod' | 'gateway' | 'tunnel';

/**
 * Connections of this node: each becomes a record with the names and the policies in force on arrival. What gets no record is counted by
 * cause. This class opens nothing: sources call its methods.
 */
export class FlowLog {
  readonly #options: FlowLogOptions;
  readonly #ring: FlowRing;
  readonly #shares: FairShares;
  readonly #endShares: FairShares;
  readonly #seenShares: FairShares;
  readonly #opened: RecordedOpenings;
  readonly #losses = new LossTally();
  readonly #summaries = new FlowSummaryMinutes();
  readonly #decisions: KnownDecisions;
  readonly #recent: RecentNumbers;
  readonly #startMs: number;
  #newestMs: number;
  #namesRefused = 0;
  readonly #counters = new Map<string, number>();

  constructor(options: FlowLogOptions) {
    this.#options = options;
    this.#ring = new FlowRing(options.records);
    this.#opened = new RecordedOpenings(this.#ring, options.records);
    const shares = () => new FairShares({ perSecond: options.openings, now: options.clock.steadyMs });
    [this.#shares, this.#endShares, this.#seenShares] = [shares(), shares(), shares()];
    this.#decisions = new KnownDecisions({ matrix: options.matrix, revision: options.matrixRevision });
    this.#recent = new RecentNumbers({ keptMs: repeatedMs, max: recentMax, nowMs: options.clock.steadyMs });
    this.#startMs = options.clock.wallMs();
    this.#newestMs = this.#startMs;
  }

  /** Number of the next record, and of the oldest that is still there. */
  get numbers(): { readonly next: number; readonly oldest: number } {
    return this.#ring;
  }

  /** Time at which the log was turned on (Unix time, ms). */
  get startMs(): number {
    return this.#startMs;
  }

  /** Number of records by event and verdict, as `opened allowed`. */
  get counters(): ReadonlyMap<string, number> {
    return this.#counters;
  }

  get lossesTotal(): FlowLosses {
    return this.#losses.total;
  }

  /** Time from which records are complete, apart from counted losses (Unix time, ms). */
  get completeFromMs(): number {
    const { oldest } = this.#ring;
    return oldest === 0 ? this.#startMs : (this.#ring.timeOf(oldest) ?? this.#startMs);
  }

  get(number: number): NumberedFlow | undefined {
    return this.#ring.get(number);
  }

  timeOf(number: number): number | undefined {
    return this.#ring.timeOf(number);
  }

  /** Returns a record of a TCP connection of which no end is recorded; undefined for any other. */
  openAt(number: number): NumberedFlow | undefined {
    if (this.#ring.isEnded(number)) return undefined;
    const flow = this.#ring.get(number);
    return flow && (flow.event === 'opened' || flow.event === 'seen') && flow.protocol === TCP ? flow : undefined;
  }

  /** Returns a connection that is open as its record, without adding one: its opening, or else with the names that are valid now. */
  nowOpen(connection: SeenConnection): FlowRecord {
    const opened = this.#opened.of(connection);
    if (opened) return opened;
    const { source, destination, service } = this.#ends(connection);
    const isSender = this.#isHere(source);
    return {
      ...{ timeMs: this.#options.clock.wallMs(), event: 'seen', verdict: 'allowed', protocol: connection.protocol, source, destination },
      reporter: isSender ? (this.#isHere(destination) ? 'both' : 'source') : 'destination',
      ...(service && { service }),
    };
  }

  /** Returns the losses since a time (Unix time, ms). */
  lossesSince(sinceMs: number): FlowLosses {
    return this.#losses.since(sinceMs);
  }

  summariesSince(sinceMs: number): Omit<FlowSummaries, 'state' | 'since'> & { readonly sinceMs: number } {
    return this.#summaries.since(sinceMs);
  }

  /** Returns the summaries of minutes by their number since 1970, the first of them included and the last not. */
  minutesBetween(first: number, last: number): readonly SummaryMinute[] {
    return this.#summaries.minutesBetween(first, last);
  }

  /** Counts connections, or packets of denied ones, that get no record. */
  lost(cause: keyof FlowLosses, count: number): void {
    this.#losses.add(cause, count, this.#options.clock.wallMs());
  }

  /**
   * Records an admitted connection, or counts one more packet that its client sent to open it.
   *
   * @param through port by which its first packet entered this node's bridge
   */
  opened(packet: Pick<OpeningPacket, 'connection' | 'tcp'>, through: EntryPoint): void {
    const { connection, tcp } = packet;
    const repeated = this.#opened.repeatedBy(packet, this.#timeNow());
    if (repeated) {
      this.#ring.repeat(repeated.number);
      return;
    }
    const { source, destination, service } = this.#ends(connection);
    if (!this.#shares.take(namespaceOf(through === 'tunnel' ? destination : source))) {
      this.lost('rate', 1);
      return;
    }
    const ends = { protocol: connection.protocol, source, destination };
    const egress = through === 'pod' ? this.#decisions.at('egress', ends, service !== undefined) : undefined;
    const ingress = this.#decisions.at('ingress', ends, service !== undefined);
    const waived =
      (egress?.verdict === 'denied' ? this.#waiverOf(source) : undefined) ??
      (ingress?.verdict === 'denied' ? this.#waiverOf(destination) : undefined);
    const number = this.#add({
      event: 'opened',
      // Without a waiver a policy has changed since the packet passed: it was admitted.
      verdict: waived === undefined ? 'allowed' : 'would-deny',
      ...(waived !== undefined && { reason: waived }),
      reporter: this.#reporterOf(destination, through),
      ...ends,
      ...(service && { service }),
      ...(egress && { egress }),
      ...(ingress && { ingress }),
    });
    this.#opened.add(connection, number);
    if (tcp) this.#ring.setFirst(number, firstOfOpening(tcp));
  }

  /** Notes the packet that answered the first one of a TCP connection: where what its other end sends begins. */
  replied({ connection, tcp }: LaterPacket): void {
    const opened = this.#opened.of(connection);
    if (opened && tcp) this.#ring.setFirst(opened.number, firstOfBoth(tcp));
  }

  /**
   * Records a connection of which a packet was seen, and whose opening is not recorded: it was open before the log was turned on.
   *
   * @param through place from which its client's packet came
   */
  seen({ connection, tcp }: LaterPacket, through: EntryPoint): void {
    if (this.#opened.of(connection)) return;
    const { source, destination, service } = this.#ends(connection);
    // It is no opening: it neither takes the place of one nor is a loss. Its next packet may be recorded.
    if (!this.#seenShares.take(namespaceOf(through === 'tunnel' ? destination : source))) return;
    const number = this.#add({
      ...{ event: 'seen', verdict: 'allowed', protocol: connection.protocol, source, destination },
      reporter: this.#reporterOf(destination, through),
      ...(service && { service }),
    });
    this.#opened.add(connection, number);
    if (tcp) this.#ring.setFirst(number, numbersNow(tcp));
  }

  /**
   * Records the end of a TCP connection, by the packet that ended it: once, whatever the number of such packets. Bytes are estimated if the
   * begin of both directions was seen.
   *
   * @param through place from which the packet came
   */
  ended({ connection, isReply, tcp }: LaterPacket, through: EntryPoint): void {
    const opened = this.#opened.of(connection);
    const isKnown = opened ? !this.#ring.end(opened.number) : this.#isRepeated(`ended ${tupleOf(connection)}`);
    if (isKnown) return;
    const { source, destination } = opened ?? this.#ends(connection);
    const place = isReply ? this.#placeOfOpener(through, source) : through;
    if (!this.#endShares.take(namespaceOf(place === 'tunnel' ? destination : source))) {
      this.lost('ends', 1);
      return;
    }
    const bytes = opened && tcp && payloadBytes(this.#ring.first(opened.number), tcp, isReply);
    const endedMs = this.#options.clock.wallMs();
    this.#close({ ...connection, endedMs, ...(bytes && { bytes, estimated: true }) }, opened, place);
  }

  /** Returns the place of the client of a connection whose other end sent a packet. */
  #placeOfOpener(replyThrough: EntryPoint, client: RecordedEnd): EntryPoint {
    return replyThrough === 'tunnel' || this.#isHere(client) ? 'pod' : 'tunnel';
  }

  /**
   * Records the end of a connection, with the names and decisions of its opening if that is still recorded.
   *
   * @param through origin of the connection
   */
  closed(connection: ClosedConnection, through: EntryPoint): void {
    const opened = this.#opened.of(connection);
    if (opened) this.#ring.end(opened.number);
    this.#close(connection, opened, through);
  }

  #close(connection: ClosedConnection, opened: NumberedFlow | undefined, through: EntryPoint): void {
    const { protocol, packets, bytes, estimated, startedMs, endedMs } = connection;
    const { source, destination, service } = opened ?? this.#ends(connection);
    const { egress, ingress } = opened ?? {};
    const begun = startedMs ?? (opened?.event === 'opened' ? opened.timeMs : undefined);
    this.#add({
      ...{ event: 'closed', verdict: opened?.verdict ?? 'allowed', protocol, source, destination },
      reporter: opened?.reporter ?? this.#reporterOf(destination, through),
      ...(service && { service }),
      ...(egress && { egress }),
      ...(ingress && { ingress }),
      ...(packets && { packets }),
      ...(bytes && { bytes }),
      ...(estimated && { estimated }),
      ...(begun !== undefined && { startedMs: begun, endedMs: Math.max(begun, endedMs) }),
    });
  }

  #reporterOf(destination: RecordedEnd, through: EntryPoint): FlowRecord['reporter'] {
    return through === 'tunnel' ? 'destination' : this.#isHere(destination) ? 'both' : 'source';
  }

  /** Reports whether this key was seen within the last seconds, and remembers it. */
  #isRepeated(key: string): boolean {
    if (this.#recent.of(key) !== undefined) return true;
    this.#recent.add(key, -1);
    return false;
  }

  /** Records a denied connection, or counts one more packet of it. */
  denied(connection: DeniedConnection): void {
    const { direction, by, reason } = connection;
    const key = keyOf(connection);
    const repeated = this.#recent.of(key);
    if (repeated !== undefined) {
      this.#ring.repeat(repeated);
      return;
    }
    const { source, destination, service } = this.#ends(connection);
    const waived = this.#waiverOf(direction === 'egress' ? source : destination);
    const verdict: FlowVerdict = waived === undefined ? 'denied' : 'would-deny';
    const number = this.#add({
      ...{ event: 'denied', verdict, protocol: connection.protocol, source, destination },
      reason: waived === undefined ? reason : `${reason}; ${waived}`,
      reporter: direction === 'egress' ? 'source' : 'destination',
      ...(service && { service }),
      [direction]: { verdict: 'denied', by },
    });
    this.#recent.add(key, number);
  }

  /** Marks a denied connection as one whose client got an answer. */
  answered(connection: DeniedConnection): void {
    const number = this.#recent.of(keyOf(connection));
    if (number !== undefined) this.#ring.refuse(number);
  }

  /** Records a connection that was refused without a policy, e.g. to a Service without endpoints. */
  refused(connection: SeenConnection, reason: string): void {
    const source = namedEnd(connection.source, this.#options.names);
    const name = this.#options.names.serviceAt(
      connection.destination.ip,
      connection.destination.port,
      protocolNames[connection.protocol] ?? '',
    );
    if (!this.#shares.take(namespaceOf(source))) {
      this.lost('rate', 1);
      return;
    }
    this.#add({
      ...{ event: 'refused', verdict: 'refused', reporter: 'source', protocol: connection.protocol, source, reason },
      destination: { ...connection.destination, kind: 'unknown' },
      service: { ...connection.destination, ...(name !== undefined && { name }) },
    });
  }

  /** Records a time without records that ended now. */
  gap(fromMs: number, reason: string): void {
    const nowhere = { ip: nowhereIp, kind: 'unknown' } as const;
    this.#add({
      ...{ event: 'gap', verdict: 'allowed', reporter: 'both', protocol: 0, source: nowhere, destination: nowhere },
      ...{ startedMs: fromMs, reason },
    });
  }

  #ends(connection: SeenConnection) {
    const { names } = this.#options;
    const destination = namedEnd(connection.destination, names);
    const service = namedService(connection, names);
    // A pod that reaches itself through a Service has this address by now.
    const { source } = connection;
    const isItself = source.ip.text === serviceNextHop[source.ip.family].text;
    return { source: isItself ? { ...destination, ...source, ip: destination.ip } : namedEnd(source, names), destination, service };
  }

  #waiverOf({ kind, name }: RecordedEnd): string | undefined {
    return kind === 'pod' && name !== undefined ? this.#options.notEnforcedFor(name) : undefined;
  }

  /** Reports whether the end is a pod of this node, or the node itself. */
  #isHere({ kind, name, ip }: RecordedEnd): boolean {
    const { subjects, ownNode } = this.#options.matrix();
    return kind === 'pod' ? name !== undefined && subjects.has(name) : ownNode.has(ip.text);
  }

  /** Time of a record that is added now. Order is that of time within a boot: a clock that was set back does not go back here. */
  #timeNow(): number {
    this.#newestMs = Math.max(this.#newestMs, this.#options.clock.wallMs());
    return this.#newestMs;
  }

  #add(record: Omit<FlowRecord, 'timeMs'>): number {
    const whole: FlowRecord = { timeMs: this.#timeNow(), ...record };
    const key = `${record.event} ${record.verdict}`;
    this.#counters.set(key, (this.#counters.get(key) ?? 0) + 1);
    this.#summaries.add(whole);
    this.#options.recorded?.(whole);
    const number = this.#ring.add(whole);
    const refused = this.#ring.namesRefused;
    this.lost('names', refused - this.#namesRefused);
    this.#namesRefused = refused;
    return number;
  }
}

/** Address in the record of a gap, which has no ends. */
const nowhereIp = parseIp('0.0.0.0');

/** Name under which a node's rate is shared: a namespace, or all that are in none. */
function namespaceOf({ kind, name = '' }: RecordedEnd): string {
  return kind === 'pod' ? name.slice(0, name.indexOf('/')) : '';
}

function keyOf({ direction, protocol, source, destination }: DeniedConnection): string {
  return `${direction} ${protocol} ${source.ip.text} ${source.port} ${destination.ip.text} ${destination.port}`;
}
