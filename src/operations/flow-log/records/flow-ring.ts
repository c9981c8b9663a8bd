import { endKinds, type FlowDecision, flowEvents, flowVerdicts } from '../../../api/flow-log.ts';
import { type Family, type Ip, ipFromBytes, ipToBytes } from '../../../base/net/ip.ts';
import type { FlowRecord, NumberedFlow, RecordedEnd, RecordedService } from './flow-record.ts';
import { noName, RecordedNames } from './names.ts';

/** Size of a record in bytes. */
const RECORD_BYTES = 128;

/**
 * Layout of a record, little endian:
 *
 *     0 f64 time · 8 f64 start · 16 source · 32 destination · 48 Service (16 bytes each)
 *     64 u16 ports: source, destination, Service · 70 u8 protocol · 71 u8 event
 *     72 u48 × 4: packets out, packets in, bytes out, bytes in
 *     96 u32 × 6: names of source, destination, Service, egress, ingress, reason
 *     120 u32 repeated; of a closed connection its duration in ms · 124 u16 flags · 126 u8 verdict and reporter · 127 u8 kinds of the ends
 */
const at = {
  time: 0,
  start: 8,
  source: 16,
  destination: 32,
  service: 48,
  ports: 64,
  protocol: 70,
  event: 71,
  counters: 72,
  names: 96,
  repeated: 120,
  flags: 124,
  verdict: 126,
  kinds: 127,
} as const;

const flag = {
  ipv6: 1,
  sourcePort: 2,
  destinationPort: 4,
  service: 8,
  servicePort: 16,
  counters: 32,
  start: 64,
  egress: 128,
  ingress: 256,
  end: 512,
  /** An opened connection whose end was seen. */
  isEnded: 1_024,
  estimated: 2_048,
  /** An opened or seen connection with the numbers of its first bytes, in place of counters. */
  firstOut: 4_096,
  firstIn: 8_192,
} as const;

const reporters = ['source', 'destination', 'both'] as const;
const U48_MAX = 2 ** 48 - 1;
const U32_MAX = 2 ** 32 - 1;
const ruleSeparator = '\n';

/**
 * Most recent records, in one block of memory outside the heap of V8. The oldest are overwritten. Numbers of records begin at 0 and are
 * never reused.
 */
export class FlowRing {
  readonly #capacity: number;
  readonly #bytes: Buffer;
  readonly #names: RecordedNames;
  #written = 0;

  /** @param capacity number of records */
  constructor(capacity: number, names = new RecordedNames()) {
    this.#capacity = capacity;
    this.#bytes = Buffer.alloc(capacity * RECORD_BYTES);
    this.#names = names;
  }

  /** Number of the next record. */
  get next(): number {
    return this.#written;
  }

  /** Number of the oldest record that is still there. */
  get oldest(): number {
    return Math.max(0, this.#written - this.#capacity);
  }

  /** Number of names without room so far. */
  get namesRefused(): number {
    return this.#names.refused;
  }

  /** Adds a record. @returns its number */
  add(record: FlowRecord): number {
    const number = this.#written++;
    if (number > 0 && number % this.#capacity === 0) this.#names.nextGeneration();
    this.#write(this.#slot(number), record);
    return number;
  }

  /** Counts one more packet like that of a record, if the record is still there. */
  repeat(number: number): void {
    if (!this.#has(number)) return;
    const slot = this.#slot(number);
    const repeated = this.#bytes.readUInt32LE(slot + at.repeated);
    if (repeated < U32_MAX) this.#bytes.writeUInt32LE(repeated + 1, slot + at.repeated);
  }

  /** Marks a denied connection as answered, if the record is still there. */
  refuse(number: number): void {
    if (!this.#has(number)) return;
    const slot = this.#slot(number);
    this.#bytes.writeUInt8(flowEvents.indexOf('refused'), slot + at.event);
    const reporter = this.#bytes.readUInt8(slot + at.verdict) >>> 4;
    this.#bytes.writeUInt8((reporter << 4) | flowVerdicts.indexOf('refused'), slot + at.verdict);
  }

  /** Marks an opened connection as ended. @returns false if it was, or the record is not there any more */
  end(number: number): boolean {
    if (!this.#has(number) || this.isEnded(number)) return false;
    const at16 = this.#slot(number) + at.flags;
    this.#bytes.writeUInt16LE(this.#bytes.readUInt16LE(at16) | flag.isEnded, at16);
    return true;
  }

  isEnded(number: number): boolean {
    return (this.#flags(number) & flag.isEnded) !== 0;
  }

  /** Remembers the sequence numbers of the first bytes of an open connection, unless they are known already. */
  setFirst(number: number, { out, in: received }: { readonly out?: number; readonly in?: number }): void {
    const flags = this.#flags(number);
    const slot = this.#slot(number);
    if (!this.#has(number) || (flags & flag.counters) !== 0) return;
    let added = 0;
    if (out !== undefined && (flags & flag.firstOut) === 0) {
      this.#bytes.writeUInt32LE(out, slot + at.counters);
      added |= flag.firstOut;
    }
    if (received !== undefined && (flags & flag.firstIn) === 0) {
      this.#bytes.writeUInt32LE(received, slot + at.counters + 4);
      added |= flag.firstIn;
    }
    this.#bytes.writeUInt16LE(flags | added, slot + at.flags);
  }

  /** Returns the sequence numbers of the first bytes of a connection, as far as they are known. */
  first(number: number): { readonly out?: number; readonly in?: number } {
    const flags = this.#flags(number);
    const slot = this.#slot(number) + at.counters;
    return {
      ...((flags & flag.firstOut) !== 0 && { out: this.#bytes.readUInt32LE(slot) }),
      ...((flags & flag.firstIn) !== 0 && { in: this.#bytes.readUInt32LE(slot + 4) }),
    };
  }

  #flags(number: number): number {
    return this.#has(number) ? this.#bytes.readUInt16LE(this.#slot(number) + at.flags) : 0;
  }

  /** Returns a record; undefined if it was overwritten or does not exist yet. */
  get(number: number): NumberedFlow | undefined {
    return this.#has(number) ? { number, ...this.#read(this.#slot(number)) } : undefined;
  }

  /** Time of a record (Unix time, ms), which is cheaper than the record. */
  timeOf(number: number): number | undefined {
    return this.#has(number) ? this.#bytes.readDoubleLE(this.#slot(number) + at.time) : undefined;
  }

  #has(number: number): boolean {
    return number >= this.oldest && number < this.#written;
  }

  #slot(number: number): number {
    return (number % this.#capacity) * RECORD_BYTES;
  }

  #write(slot: number, record: FlowRecord): void {
    const bytes = this.#bytes;
    const { source, destination, service, packets, bytes: sizes } = record;
    bytes.fill(0, slot, slot + RECORD_BYTES);
    bytes.writeDoubleLE(record.timeMs, slot + at.time);
    bytes.writeDoubleLE(record.startedMs ?? 0, slot + at.start);
    bytes.set(ipToBytes(source.ip), slot + at.source);
    bytes.set(ipToBytes(destination.ip), slot + at.destination);
    if (service) bytes.set(ipToBytes(service.ip), slot + at.service);
    for (const [index, port] of [source.port, destination.port, service?.port].entries())
      bytes.writeUInt16LE(port ?? 0, slot + at.ports + 2 * index);
    bytes.writeUInt8(record.protocol, slot + at.protocol);
    bytes.writeUInt8(flowEvents.indexOf(record.event), slot + at.event);
    for (const [index, count] of [packets?.out, packets?.in, sizes?.out, sizes?.in].entries())
      bytes.writeUIntLE(Math.min(count ?? 0, U48_MAX), slot + at.counters + 6 * index, 6);
    for (const [index, name] of namesOf(record).entries()) bytes.writeUInt32LE(this.#names.numberOf(name), slot + at.names + 4 * index);
    bytes.writeUInt32LE(Math.min(record.repeated ?? durationOf(record) ?? 0, U32_MAX), slot + at.repeated);
    bytes.writeUInt16LE(flagsOf(record), slot + at.flags);
    bytes.writeUInt8((reporters.indexOf(record.reporter) << 4) | flowVerdicts.indexOf(record.verdict), slot + at.verdict);
    bytes.writeUInt8((endKinds.indexOf(source.kind) << 4) | endKinds.indexOf(destination.kind), slot + at.kinds);
  }

  #read(slot: number): FlowRecord {
    const bytes = this.#bytes;
    const flags = bytes.readUInt16LE(slot + at.flags);
    const has = (bit: number): boolean => (flags & bit) !== 0;
    const name = (index: number): string => {
      const number = bytes.readUInt32LE(slot + at.names + 4 * index);
      return number === noName ? '' : this.#names.nameOf(number);
    };
    const count = (index: number): number => bytes.readUIntLE(slot + at.counters + 6 * index, 6);
    const [verdict, kinds, repeated] = [bytes[slot + at.verdict] ?? 0, bytes[slot + at.kinds] ?? 0, bytes.readUInt32LE(slot + at.repeated)];
    const end = (place: 'source' | 'destination', index: 0 | 1): RecordedEnd => ({
      ip: this.#ip(slot + at[place], has(flag.ipv6) ? 'ipv6' : 'ipv4'),
      ...(has(index === 0 ? flag.sourcePort : flag.destinationPort) && { port: bytes.readUInt16LE(slot + at.ports + 2 * index) }),
      kind: endKinds[index === 0 ? kinds >>> 4 : kinds & 0xf] ?? 'unknown',
      ...named(name(index)),
    });
    const [reason, startedMs] = [name(5), bytes.readDoubleLE(slot + at.start)];
    return {
      timeMs: bytes.readDoubleLE(slot + at.time),
      event: flowEvents[bytes[slot + at.event] ?? 0] ?? 'gap',
      verdict: flowVerdicts[verdict & 0xf] ?? 'allowed',
      reporter: reporters[verdict >>> 4] ?? 'source',
      protocol: bytes[slot + at.protocol] ?? 0,
      source: end('source', 0),
      destination: end('destination', 1),
      ...(has(flag.service) && { service: this.#service(slot, flags, name(2)) }),
      ...(has(flag.egress) && { egress: decisionOf(name(3)) }),
      ...(has(flag.ingress) && { ingress: decisionOf(name(4)) }),
      ...(reason !== '' && { reason }),
      ...(repeated > 0 && !has(flag.end) && { repeated }),
      ...(has(flag.counters) && { packets: { out: count(0), in: count(1) }, bytes: { out: count(2), in: count(3) } }),
      ...(has(flag.estimated) && { bytes: { out: count(2), in: count(3) }, estimated: true as const }),
      ...(has(flag.start) && { startedMs }),
      ...(has(flag.end) && { endedMs: startedMs + repeated }),
    };
  }

  #service(slot: number, flags: number, name: string): RecordedService {
    const port = (flags & flag.servicePort) === 0 ? {} : { port: this.#bytes.readUInt16LE(slot + at.ports + 4) };
    return { ip: this.#ip(slot + at.service, (flags & flag.ipv6) === 0 ? 'ipv4' : 'ipv6'), ...port, ...named(name) };
  }

  #ip(offset: number, family: Family): Ip {
    return ipFromBytes(this.#bytes.subarray(offset, offset + (family === 'ipv4' ? 4 : 16)));
  }
}

/** Returns the duration in ms; undefined unless start and end are known. */
function durationOf({ startedMs, endedMs }: FlowRecord): number | undefined {
  return startedMs === undefined || endedMs === undefined ? undefined : Math.max(0, Math.round(endedMs - startedMs));
}

function named(name: string): { readonly name?: string } {
  return name === '' ? {} : { name };
}

function namesOf({ source, destination, service, egress, ingress, reason }: FlowRecord): readonly string[] {
  return [source.name ?? '', destination.name ?? '', service?.name ?? '', textOf(egress), textOf(ingress), reason ?? ''];
}

/** Verdict, then one rule a line; empty for none. */
function textOf(decision: FlowDecision | undefined): string {
  return decision ? [decision.verdict, ...decision.by].join(ruleSeparator) : '';
}

/** A decision whose text found no room is shown without its rules. */
function decisionOf(text: string): FlowDecision {
  const [verdict, ...by] = text.split(ruleSeparator);
  return { verdict: verdict === 'denied' ? 'denied' : 'allowed', by };
}

function flagsOf({ source, destination, service, packets, estimated, startedMs, endedMs, egress, ingress }: FlowRecord): number {
  return (
    (source.ip.family === 'ipv6' ? flag.ipv6 : 0) |
    (source.port === undefined ? 0 : flag.sourcePort) |
    (destination.port === undefined ? 0 : flag.destinationPort) |
    (service ? flag.service : 0) |
    (service?.port === undefined ? 0 : flag.servicePort) |
    (packets ? flag.counters : 0) |
    (estimated ? flag.estimated : 0) |
    (startedMs === undefined ? 0 : flag.start) |
    (egress ? flag.egress : 0) |
    (ingress ? flag.ingress : 0) |
    (endedMs === undefined ? 0 : flag.end)
  );
}
