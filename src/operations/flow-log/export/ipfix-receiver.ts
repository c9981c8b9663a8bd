import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { abortable } from '../../../base/async/abortable.ts';
import { within } from '../../../base/async/time-limit.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { type DataRecord, dataMessages, templateMessage } from '../../../ipfix/messages.ts';
import type { ExportCounts, ExportedItem, FlowReceiver } from './exported-item.ts';
import { flowTemplates, ipfixCounts, ipfixRecord } from './ipfix-records.ts';

/** Time for a connection, and for a collector to take the bytes of a batch (ms). */
const CONNECT_MS = 5_000;
const WRITE_MS = 10_000;
/** Maximum length of a datagram that no path with the MTU of IPv6 fragments (bytes), and of a message on a connection. */
const DATAGRAM_MAX = 1_280 - 40 - 8;
const MESSAGE_MAX = 32 * 1024;
/** Interval at which templates are sent again over UDP (ms). Source: RFC 7011 section 8.4, which leaves it to the configuration. */
const TEMPLATES_EVERY_MS = 60_000;

/** Address of a collector. Its default port is that of RFC 7011 section 10. */
export interface IpfixCollector {
  readonly transport: 'tcp' | 'udp' | 'tls';
  readonly host: string;
  readonly port: number;
}

interface IpfixReceiverOptions {
  readonly collector: IpfixCollector;
  /** File with the certificates that may have signed the collector's, in PEM. */
  readonly caFile?: string | undefined;
  /** Number of this exporter's observation domain. */
  readonly domain: number;
  readonly clock: { readonly wallMs: () => number; readonly steadyMs: () => number };
}

/** Connection to a collector, or a socket for datagrams to it. */
interface CollectorSession {
  readonly bytesMax: number;
  readonly repeatsTemplates: boolean;
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly close: () => void;
  readonly isOpen: () => boolean;
}

/** Collector of IPFIX over TCP, TLS or UDP. A new connection begins with the templates, and counts its records from 0. */
export class IpfixReceiver implements FlowReceiver {
  readonly #options: IpfixReceiverOptions;
  #session: CollectorSession | undefined;
  #sequence = 0;
  #templatesMs = Number.NEGATIVE_INFINITY;
  #counts: ExportCounts | undefined;

  constructor(options: IpfixReceiverOptions) {
    this.#options = options;
  }

  async send(items: readonly ExportedItem[], signal: AbortSignal): Promise<{ readonly refused: number }> {
    const { domain } = this.#options;
    const session = await this.#connected(signal);
    const flows = items.flatMap((item) => (item.kind === 'flow' ? (ipfixRecord(item.flow) ?? []) : []));
    const records = this.#counts ? [...flows, ipfixCounts(this.#counts, domain)] : flows;
    try {
      await abortable(this.#write(session, records), within(signal, WRITE_MS));
    } catch (thrown) {
      // The collector may have got a part of it, and cannot continue in the middle of a message.
      this.close();
      throw unavailable(SeineError.from(thrown, 'send').rawMessage);
    }
    this.#counts = undefined;
    return { refused: 0 };
  }

  report(counts: ExportCounts): void {
    this.#counts = { ...counts };
  }

  close(): void {
    this.#session?.close();
    this.#session = undefined;
  }

  async #connected(signal: AbortSignal): Promise<CollectorSession> {
    if (this.#session?.isOpen()) return this.#session;
    this.close();
    this.#session = await open(this.#options, within(signal, CONNECT_MS));
    [this.#sequence, this.#templatesMs] = [0, Number.NEGATIVE_INFINITY];
    return this.#session;
  }

  async #write({ write, bytesMax, repeatsTemplates }: CollectorSession, records: readonly DataRecord[]): Promise<void> {
    const { domain, clock } = this.#options;
    const options = { exportMs: clock.wallMs(), sequence: this.#sequence, domain, bytesMax };
    const areTemplatesDue = clock.steadyMs() - this.#templatesMs >= (repeatsTemplates ? TEMPLATES_EVERY_MS : Number.POSITIVE_INFINITY);
    if (areTemplatesDue) {
      await write(templateMessage(flowTemplates, options));
      this.#templatesMs = clock.steadyMs();
    }
    for (const { bytes, records: count } of dataMessages(records, options)) {
      await write(bytes);
      this.#sequence = (this.#sequence + count) % 2 ** 32;
    }
  }
}

async function open({ collector, caFile }: IpfixReceiverOptions, signal: AbortSignal): Promise<CollectorSession> {
  try {
    return collector.transport === 'udp' ? await openDatagrams(collector, signal) : await openStream(collector, caFile, signal);
  } catch (thrown) {
    throw unavailable(SeineError.from(thrown, 'connect').rawMessage);
  }
}

async function openDatagrams({ host, port }: IpfixCollector, signal: AbortSignal): Promise<CollectorSession> {
  const { lookup } = await import('node:dns/promises');
  const { address, family } = await abortable(lookup(host), signal);
  const socket: DatagramSocket = createSocket(family === 6 ? 'udp6' : 'udp4');
  let isOpen = true;
  // An ICMP error of an earlier datagram: the next batch opens a socket again, and begins with the templates.
  socket.on('error', () => (isOpen = false));
  await new Promise<void>((resolve) => void socket.connect(port, address, () => resolve()));
  socket.unref();
  return {
    ...{ bytesMax: DATAGRAM_MAX, repeatsTemplates: true, isOpen: () => isOpen },
    write: (bytes) => new Promise((resolve, reject) => socket.send(bytes, (error) => (error ? reject(error) : resolve()))),
    close: () => {
      isOpen = false;
      socket.close();
    },
  };
}

async function openStream(
  { transport, host, port }: IpfixCollector,
  caFile: string | undefined,
  signal: AbortSignal,
): Promise<CollectorSession> {
  const socket: Socket =
    transport === 'tls'
      ? connectTls({ host, port, ...(caFile !== undefined && { ca: readFileSync(caFile) }) })
      : connectTcp({ host, port });
  const failed = new Promise<never>((_, reject) =>
    socket.once('error', reject).once('close', () => reject(unavailable('connection closed'))),
  );
  failed.catch(() => undefined); // it is closed one day
  socket.on('error', () => undefined);
  socket.resume(); // a collector sends nothing
  const ready = new Promise<void>((resolve) => socket.once(transport === 'tls' ? 'secureConnect' : 'connect', () => resolve()));
  try {
    await abortable(Promise.race([ready, failed]), signal);
  } catch (thrown) {
    socket.destroy();
    throw thrown;
  }
  socket.setKeepAlive(true, 30_000).unref();
  return {
    ...{ bytesMax: MESSAGE_MAX, repeatsTemplates: false, isOpen: () => socket.writable && !socket.readableEnded },
    write: (bytes) => new Promise((resolve, reject) => socket.write(bytes, (error) => (error ? reject(error) : resolve()))),
    close: () => socket.destroy(),
  };
}

function unavailable(cause: string): SeineError {
  return new SeineError('UNAVAILABLE', cause);
}
