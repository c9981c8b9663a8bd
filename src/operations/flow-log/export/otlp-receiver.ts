import { readFile } from 'node:fs/promises';
import type { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';
import { abortable } from '../../../base/async/abortable.ts';
import { within } from '../../../base/async/time-limit.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { readHeaders } from './export-headers.ts';
import type { ExportedItem, FlowReceiver } from './exported-item.ts';
import { otlpRecord } from './otlp-records.ts';

/** Time for a batch with the retries of the exporter (ms), and the time after which its connection is given up. */
const BATCH_MS = 10_000;
const GIVE_UP_MS = 15_000;
/** Maximum length of a file with certificates or headers (bytes). */
const FILE_MAX = 256 * 1024;

interface OtlpReceiverOptions {
  /** URL of the receiver; `/v1/logs` is added if it has no path. */
  readonly endpoint: string;
  /** File with a header `Name: value` a line; read for each batch, so a token may be replaced. */
  readonly headersFile?: string | undefined;
  /** File with the certificates that may have signed the receiver's, in PEM. */
  readonly caFile?: string | undefined;
  readonly node: string;
  readonly version: string;
}

/** Exporter of OpenTelemetry, and the authorities that it was created for. */
interface OpenExporter {
  readonly exporter: OTLPLogExporter;
  readonly ca: string | undefined;
  /** Closes its connections, also if one of them hangs. */
  readonly destroy: () => void;
}

/** Receiver of OTLP logs over HTTP, by the packages of OpenTelemetry. They are loaded when the first record is sent. */
export class OtlpReceiver implements FlowReceiver {
  readonly #options: OtlpReceiverOptions;
  #open: OpenExporter | undefined;
  #headers: Readonly<Record<string, string>> = {};
  /** Number of records that the receiver rejected of the current batch. */
  #refused = 0;

  constructor(options: OtlpReceiverOptions) {
    this.#options = options;
  }

  async send(items: readonly ExportedItem[], signal: AbortSignal): Promise<{ readonly refused: number }> {
    const { headersFile, caFile } = this.#options;
    this.#headers = headersFile === undefined ? {} : readHeaders(await textOf('flowLog.otlp.headersFile', headersFile));
    const ca = caFile === undefined ? undefined : await textOf('flowLog.otlp.caFile', caFile);
    if (this.#open?.ca !== ca) this.close();
    this.#open ??= await this.#create(ca);
    const records = await this.#recordsOf(items);
    this.#refused = 0;
    const { exporter } = this.#open;
    const sent = new Promise<Error | undefined>((resolve) =>
      exporter.export(records, ({ error, code }) => resolve(failureOf(code, error))),
    );
    const failure = await abortable(sent, within(signal, GIVE_UP_MS)).catch(() => {
      this.close(); // a receiver that answers a byte now and then
      return unavailable('no answer');
    });
    if (failure) throw failure;
    return { refused: Math.min(this.#refused, items.length) };
  }

  close(): void {
    this.#open?.destroy();
    this.#open = undefined;
  }

  async #create(ca: string | undefined): Promise<OpenExporter> {
    const [{ OTLPLogExporter: Exporter }, { diag, DiagLogLevel }, http, https] = await Promise.all([
      import('@opentelemetry/exporter-logs-otlp-proto'),
      import('@opentelemetry/api'),
      import('node:http'),
      import('node:https'),
    ]);
    const { endpoint } = this.#options;
    const settings = { keepAlive: true, maxSockets: 1 };
    const agent = endpoint.startsWith('https:')
      ? new https.Agent({ ...settings, ...(ca !== undefined && { ca }) })
      : new http.Agent(settings);
    // The exporter reports a partial success only here.
    const warn = (_message: string, ...details: unknown[]): void => void (this.#refused += rejectedIn(details));
    const quiet = (): void => {};
    diag.setLogger(
      { error: quiet, warn, info: quiet, debug: quiet, verbose: quiet },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
    const exporter = new Exporter({
      url: urlOf(endpoint),
      headers: async () => ({ ...this.#headers }),
      timeoutMillis: BATCH_MS,
      concurrencyLimit: 1,
      httpAgentOptions: () => agent,
    });
    return { exporter, ca, destroy: () => agent.destroy() };
  }

  async #recordsOf(items: readonly ExportedItem[]): Promise<ReadableLogRecord[]> {
    const [{ resourceFromAttributes }, { SeverityNumber }] = await Promise.all([
      import('@opentelemetry/resources'),
      import('@opentelemetry/api'),
    ]);
    const { node, version } = this.#options;
    const resource = resourceFromAttributes({ 'service.name': 'seine-agent', 'service.version': version, 'k8s.node.name': node });
    const instrumentationScope = { name: 'seine.flow-log', version };
    return items.map((item) => {
      const { timeMs, event, severity, body, attributes } = otlpRecord(item);
      const hrTime: [number, number] = [Math.floor(timeMs / 1_000), (timeMs % 1_000) * 1_000_000];
      return {
        ...{ hrTime, hrTimeObserved: hrTime, eventName: event, body, attributes, resource, instrumentationScope },
        ...{ severityText: severity, severityNumber: SeverityNumber[severity], droppedAttributesCount: 0 },
      };
    });
  }
}

function urlOf(endpoint: string): string {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = '/v1/logs';
  return url.href;
}

async function textOf(key: string, path: string): Promise<string> {
  try {
    const bytes = await readFile(path);
    if (bytes.length > FILE_MAX) throw unavailable(`${key}: ${path} has more than ${FILE_MAX} bytes`);
    return bytes.toString('utf8');
  } catch (thrown) {
    const error = SeineError.from(thrown, `${key}: ${path}`);
    throw unavailable(`${key}: ${error.rawMessage}`);
  }
}

/** Returns the error of a batch: `REFUSED` if the receiver answered that it does not take it, else it may be sent again. */
function failureOf(code: number, error: Error | undefined): SeineError | undefined {
  if (code === 0) return undefined;
  const status = error && 'code' in error && typeof error.code === 'number' ? error.code : undefined;
  const cause = (error?.message ?? 'unknown error').slice(0, 200);
  return status === undefined ? unavailable(cause) : new SeineError('REFUSED', `the receiver answered with HTTP status ${status} ${cause}`);
}

function unavailable(cause: string): SeineError {
  return new SeineError('UNAVAILABLE', cause);
}

/** Returns the number of rejected records in a report of the exporter. Source: opentelemetry-proto, ExportLogsPartialSuccess. */
function rejectedIn(details: readonly unknown[]): number {
  const [, count] = /"rejectedLogRecords":"?(\d{1,9})/.exec(details.filter((each) => typeof each === 'string').join(' ')) ?? [];
  return Number(count ?? 0);
}
