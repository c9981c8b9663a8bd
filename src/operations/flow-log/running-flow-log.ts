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
import type { DeniedConnection } from './sources/attribution.ts';
import { OpeningCounts } from './sources/opening-counts.ts';
import { connectionOf, readOpening } from './sources/seen-packet.ts';
import { type TrackerAccounting, TrackerTimeouts } from './sources/tracker-accounting.ts';
import { TrackerEnds, timeoutParameter } from './sources/tracker-ends.ts';

/** Interval between readings of the counters of OVS (ms). */
const COUNTERS_EVERY_MS = 5_000;

export interface FlowSources extends FlowLogOptions {
  readonly denied: Pick<DeniedLog, 'observe' | 'describe'>;
  /** True if denied connections are recorded. */
  readonly recordsDenied: boolean;
  readonly refusals: Pick<PolicyRefusals, 'subscribe'>;
  readonly noEndpoint: Pick<NoEndpointResponder, 'subscribe'>;
  readonly bridge: ConstructorParameters<typeof OpeningCounts>[0]['bridge'];
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
  readonly #sources: FlowSources;
  readonly #counts: OpeningCounts;
  readonly #closing = new AbortController();
  readonly #ends: readonly (() => void)[];
  #reading: Promise<void> | undefined;

  constructor(sources: FlowSources) {
    this.#sources = sources;
    const { denied, refusals, noEndpoint, bridge, recordsDenied, clock } = sources;
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
    };
    this.flows = new FlowLog({ ...sources, recorded });
    this.exports = this.#openExports();
    void this.#noteGap();
    this.#counts = new OpeningCounts({ bridge, now: clock.steadyMs });
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

  /** Aborts when the log is turned off. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Records the copy of a packet that opened a connection. */
  opened(packet: PacketIn): void {
    this.#counts.received();
    const opening = readOpening(packet);
    if (!opening) return;
    const { inPort, connection } = opening;
    this.flows.opened(connection, inPort === ofPorts.tunnel ? 'tunnel' : inPort === ofPorts.gateway ? 'gateway' : 'pod');
  }

  /** Counts what OVS did not pass on until now; calls at one time share a reading. Resolves also if OVS does not answer. */
  async count(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  close(): void {
    this.#closing.abort(new SeineError('CANCELLED', 'the flow log is turned off'));
    for (const end of this.#ends) end();
    void this.files.close();
    void this.exports.close();
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
      const { metered, queue } = await this.#counts.read(this.#closing.signal);
      this.flows.lost('meter', metered);
      this.flows.lost('queue', queue);
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
