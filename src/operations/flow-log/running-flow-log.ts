import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import { ofPorts } from '../../dataplane/pipeline/well-known.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import type { DeniedLog } from '../../policy/denied-log/denied-log.ts';
import type { DeniedPacket } from '../../policy/denied-log/denied-packet.ts';
import type { PolicyRefusals } from '../../policy/refusals/policy-refusals.ts';
import type { NoEndpointResponder } from '../../services/packet-in/no-endpoint.ts';
import { type ExportSettings, FlowExports } from './export/flow-exports.ts';
import { FlowFiles } from './flow-files.ts';
import { FlowLog, type FlowLogOptions } from './flow-log.ts';
import type { FlowRecord } from './records/flow-record.ts';
import { NamespaceCounts } from './records/namespace-counts.ts';
import type { DeniedConnection } from './sources/attribution.ts';
import { CopyCounts } from './sources/copy-counts.ts';
import { isSampled, type Sampling } from './sources/sampled-connections.ts';
import { connectionOf, readLater, readOpening } from './sources/seen-packet.ts';
import { type TrackerAccounting, TrackerTimeouts } from './sources/tracker-accounting.ts';
import { TrackerEnds, timeoutParameter } from './sources/tracker-ends.ts';

/** Interval between readings of the counters of OVS (ms). */
const COUNTERS_EVERY_MS = 5_000;

export interface FlowSources extends FlowLogOptions {
  readonly denied: Pick<DeniedLog, 'observe' | 'describe'>;
  /** One of so many connections is recorded when the log is turned on. */
  readonly sampling: Sampling;
  /** True if denied connections are recorded. */
  readonly recordsDenied: boolean;
  /** True if connections are counted by namespace. */
  readonly countsNamespaces: boolean;
  readonly refusals: Pick<PolicyRefusals, 'subscribe'>;
  readonly noEndpoint: Pick<NoEndpointResponder, 'subscribe'>;
  readonly bridge: ConstructorParameters<typeof CopyCounts>[0]['bridge'];
  /** Probes of `seinectl trace`, which are no connections of pods. */
  readonly probes: { hasForgotten(protocol: number, source: TrackedPort, asked: TrackedPort): boolean };
  /** Events of the kernel's tracker, if that is the bridge's: connections that ended. */
  readonly tracker?: TrackerSource;
  readonly files: Pick<ConstructorParameters<typeof FlowFiles>[0], 'folder' | 'bytesMax' | 'node'>;
  readonly exports: ExportSettings;
  readonly log: Log;
}

interface TrackedPort {
  readonly ip: Ip;
  readonly port?: number;
}

/** Kernel's tracker. */
interface TrackerSource {
  readonly open: ConstructorParameters<typeof TrackerEnds>[0]['open'];
  /** Parameters of the tracker; absent with `hostSettings: check`, where what is off stays off, and connections have no counters. */
  readonly accounting?: Pick<TrackerAccounting, 'turnOn' | 'restore'>;
}

/** Flow log that is on: connects its sources until it is closed. */
export class RunningFlowLog {
  readonly flows: FlowLog;
  /** Records on disk, also of earlier agents. */
  readonly files: FlowFiles;
  readonly exports: FlowExports;
  /** Absent unless they are requested. */
  readonly namespaces?: NamespaceCounts;
  readonly #sources: FlowSources;
  readonly #counts: CopyCounts;
  #sampling: Sampling;
  readonly #closing = new AbortController();
  readonly #ends: readonly (() => void)[];
  #reading: Promise<void> | undefined;

  constructor(sources: FlowSources) {
    this.#sources = sources;
    const { denied, refusals, noEndpoint, bridge, recordsDenied, clock } = sources;
    this.#sampling = sources.sampling;
    if (sources.countsNamespaces) this.namespaces = new NamespaceCounts();
    this.files = new FlowFiles({
      ...sources.files,
      log: sources.log,
      now: clock.steadyMs,
      wallMs: clock.wallMs,
      lost: (count) => this.flows.lost('disk', count),
    });
    const recorded = (record: FlowRecord): void => {
      this.files.add(record);
      this.exports.add(record);
      this.namespaces?.add(record);
    };
    this.flows = new FlowLog({ ...sources, recorded });
    this.exports = this.#openExports();
    void this.#noteGap();
    this.#counts = new CopyCounts({ bridge, now: clock.steadyMs });
    const observer = {
      denied: (pod: string, packet: DeniedPacket, fields: PacketIn['fields']) => this.flows.denied(this.#deniedOf(pod, packet, fields)),
      missed: (packets: number) => this.flows.lost('denied', packets),
    };
    this.#ends = [
      ...(recordsDenied ? [denied.observe(observer)] : []),
      refusals.subscribe((pod, packet) => this.flows.answered(this.#deniedOf(pod, packet, {}))),
      noEndpoint.subscribe((packet) => this.#refuse(packet)),
      ...(sources.tracker ? [this.#followTracker(sources.tracker)] : []),
    ];
    void this.#readCounters();
  }

  /** One of so many connections is recorded. */
  get sampling(): Sampling {
    return this.#sampling;
  }

  /** Aborts when the log is turned off. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Records the copy of a packet that opened a connection. */
  opened(packet: PacketIn): void {
    this.#counts.received('opened', portOf(packet));
    const opening = readOpening(packet);
    if (opening) this.flows.opened(opening, placeOf(opening.inPort));
  }

  /** Records the copy of a packet that ended a TCP connection. */
  ended(packet: PacketIn): void {
    this.#counts.received('ended', portOf(packet));
    const end = readLater(packet);
    if (end) this.flows.ended(end, placeOf(end.inPort));
  }

  /** Notes the copy of a packet that answered the first one of a connection. */
  answered(packet: PacketIn): void {
    const answer = readLater(packet);
    if (answer) this.flows.replied(answer);
  }

  /** Records the copy of a packet of a connection that may have been open before. */
  seen(packet: PacketIn): void {
    const later = readLater(packet);
    if (later) this.flows.seen(later, placeOf(later.inPort));
  }

  /** Counts what OVS did not pass on until now; calls at one time share a reading. Resolves also if OVS does not answer. */
  async count(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  /** One of so many connections is recorded from now on. */
  sample(sampling: Sampling): void {
    this.#sampling = sampling;
  }

  /** Ends all sources. Resolves when exports and files have what waited, or have given it up, which takes seconds at most. */
  async close(): Promise<void> {
    this.#closing.abort(new SeineError('CANCELLED', 'the flow log is turned off'));
    for (const end of this.#ends) end();
    await Promise.all([this.files.close(), this.exports.close()]);
  }

  #openExports(): FlowExports {
    const { exports: settings, files, log, clock } = this.#sources;
    return new FlowExports({ settings, node: files.node, log, clock, summaries: this.flows, losses: () => this.flows.lossesTotal });
  }

  /** Records the time since the last record of an earlier agent. */
  async #noteGap(): Promise<void> {
    // Without the files there is nothing to continue.
    const lastMs = await this.files.lastMs(this.flows.startMs).catch(() => undefined);
    if (lastMs !== undefined) this.flows.gap(lastMs, 'the flow log was off or the agent did not run');
  }

  async #read(): Promise<void> {
    try {
      const { opened, ended, notSampled } = await this.#counts.read(this.#closing.signal);
      this.flows.lost('sampling', notSampled);
      this.flows.lost('meter', opened.metered);
      this.flows.lost('queue', opened.queue);
      this.flows.lost('ends', ended.metered + ended.queue);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'read the counters of opened connections');
      if (error.code === 'INVARIANT') throw error;
      // OVS is not connected, or has no meters: the next reading counts what happened meanwhile.
      this.#sources.log.debug('opened connections were not counted', { cause: error.message });
    }
  }

  async #readCounters(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.count();
      await idle(COUNTERS_EVERY_MS, signal);
    }
  }

  /** @returns a function that ends it */
  #followTracker({ open, accounting }: TrackerSource): () => void {
    accounting?.turnOn();
    const timeouts = new TrackerTimeouts();
    const ends = new TrackerEnds({
      open,
      closed: ({ connection, through }) => {
        const { protocol, source, destination, asked = destination } = connection;
        if (!isSampled(this.#sampling, source.port)) return;
        if (!this.#sources.probes.hasForgotten(protocol, source, asked)) this.flows.closed(connection, through);
      },
      missed: () => this.flows.lost('kernel', 1),
      timeoutMs: (...of) => timeouts.of(timeoutParameter(...of)),
    });
    return () => {
      ends.close();
      accounting?.restore();
    };
  }

  #deniedOf(pod: string, packet: DeniedPacket, fields: PacketIn['fields']): DeniedConnection {
    const { policies, rule, why } = this.#sources.denied.describe(pod, packet);
    return { ...connectionOf(packet, fields), direction: packet.direction, by: rule === undefined ? policies : [rule], reason: why };
  }

  #refuse(packet: Pick<PacketIn, 'data' | 'fields'>): void {
    const opening = readOpening(packet);
    if (opening) this.flows.refused(opening.connection, 'the Service has no endpoint, or not this port');
  }
}

function portOf({ fields: { in_port: port } }: PacketIn): number {
  return typeof port === 'number' ? port : 0;
}

/** Returns the place from which a packet came. Pure. */
function placeOf(inPort: number): 'pod' | 'gateway' | 'tunnel' {
  return inPort === ofPorts.tunnel ? 'tunnel' : inPort === ofPorts.gateway ? 'gateway' : 'pod';
}
