import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs';
import type { CollectedFlow, FlowCollector } from './collector.ts';

/** Messages of OTLP logs, as far as the test reads them. Source: opentelemetry-proto, logs/v1 and common/v1. */
const schema = `syntax = "proto3";
message Request { repeated ResourceLogs resource_logs = 1; }
message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeLogs { repeated LogRecord log_records = 2; }
message LogRecord { fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5;
  repeated KeyValue attributes = 6; string event_name = 12; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
  ArrayValue array_value = 5; } }
message ArrayValue { repeated AnyValue values = 1; }
message Response { Partial partial_success = 1; }
message Partial { int64 rejected_log_records = 1; string error_message = 2; }`;
const { root } = protobuf.parse(schema, { keepCase: false });
const [Request, Response] = [root.lookupType('Request'), root.lookupType('Response')];

/** Log record with its attributes as text, lists joined by commas. */
export interface CollectedLog {
  readonly timeMs: number;
  readonly event: string;
  readonly body: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
}

/** Answer to a request. */
type OtlpAnswer = 'ok' | 'hang' | { readonly status: number; readonly retryAfterS?: number } | { readonly rejects: number };

interface OtlpCollectorOptions {
  readonly port?: number;
  readonly fd?: number;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Receiver of OTLP logs over HTTP, which answers as the test chooses. */
export class OtlpCollector implements FlowCollector {
  readonly logs: CollectedLog[] = [];
  readonly headers: IncomingMessage['headers'][] = [];
  readonly paths: string[] = [];
  /** Returns the answer to the next request. */
  answer: () => OtlpAnswer = () => 'ok';
  readonly port: number;
  readonly #close: () => Promise<void>;

  private constructor(port: number, close: () => Promise<void>) {
    [this.port, this.#close] = [port, close];
  }

  /** @param options `port` 0 for any; `fd`: a listening descriptor, e.g. of another network namespace */
  static async open({ port = 0, fd, tls }: OtlpCollectorOptions = {}): Promise<OtlpCollector> {
    let collector: OtlpCollector | undefined;
    const serve = (request: IncomingMessage, response: ServerResponse): void => void collector?.serve(request, response);
    const server = tls ? createTlsServer(tls, serve) : createServer(serve);
    await new Promise<void>((resolve, reject) =>
      server.once('error', reject).listen(fd === undefined ? { port, host: '127.0.0.1' } : { fd }, resolve),
    );
    collector = new OtlpCollector((server.address() as AddressInfo).port, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return collector;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    this.headers.push(request.headers);
    this.paths.push(request.url ?? '');
    const answer = this.answer();
    if (answer === 'hang') return;
    if (answer !== 'ok' && 'status' in answer) {
      response.writeHead(answer.status, answer.retryAfterS === undefined ? {} : { 'retry-after': String(answer.retryAfterS) }).end();
      return;
    }
    const body = Buffer.concat(parts);
    const logs = logsOf(request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
    const rejected = answer === 'ok' ? 0 : answer.rejects;
    this.logs.push(...logs.slice(rejected));
    const partial = rejected === 0 ? {} : { partialSuccess: { rejectedLogRecords: rejected, errorMessage: 'too old' } };
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end(Response.encode(Response.fromObject(partial)).finish());
  }

  received(): Promise<readonly CollectedFlow[]> {
    return Promise.resolve(this.logs.filter(({ event }) => /\.(opened|closed|denied|refused)$/.test(event)).map(flowOf));
  }

  close(): Promise<void> {
    return this.#close();
  }
}

type Value = Readonly<Record<string, unknown>>;

function logsOf(bytes: Buffer): readonly CollectedLog[] {
  const { resourceLogs = [] } = Request.toObject(Request.decode(bytes), { longs: String }) as { resourceLogs?: Value[] };
  return resourceLogs.flatMap(({ resource, scopeLogs }) =>
    (scopeLogs as Value[]).flatMap(({ logRecords }) =>
      (logRecords as Value[]).map((record) => ({
        timeMs: Number(BigInt(String(record['timeUnixNano'])) / 1_000_000n),
        event: String(record['eventName']),
        body: textOf(record['body'] as Value),
        attributes: attributesOf(record['attributes']),
        resource: attributesOf((resource as Value)['attributes']),
      })),
    ),
  );
}

function attributesOf(list: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(((list ?? []) as { key: string; value: Value }[]).map(({ key, value }) => [key, textOf(value)]));
}

function textOf(value: Value): string {
  const { arrayValue, ...one } = value;
  if (arrayValue) return ((arrayValue as { values?: Value[] }).values ?? []).map(textOf).join();
  return String(Object.values(one)[0] ?? '');
}

const protocols: Readonly<Record<string, number>> = { tcp: 6, udp: 17, icmp: 1, sctp: 132 };

function flowOf({ timeMs, event, attributes }: CollectedLog): CollectedFlow {
  const end = (side: string): string => `${attributes[`${side}.address`]} ${attributes[`${side}.port`] ?? 0}`;
  const pod = (side: string): string => joined(attributes[`seine.${side}.namespace`], attributes[`seine.${side}.pod`]);
  const counted = (name: string): { readonly out: bigint; readonly in: bigint } | undefined => {
    const out = attributes[`seine.flow.${name}.sent`];
    return out === undefined ? undefined : { out: BigInt(out), in: BigInt(attributes[`seine.flow.${name}.received`] ?? '') };
  };
  const verdict = attributes['seine.flow.verdict'];
  const [bytes, packets] = [counted('bytes'), counted('packets')];
  const serviceName = joined(attributes['seine.service.namespace'], attributes['seine.service.name']);
  return {
    timeMs,
    verdict: verdict === 'allowed' || verdict === 'would-deny' ? verdict : 'denied',
    isEnd: event === 'seine.flow.closed',
    protocol: protocols[attributes['network.transport'] ?? ''] ?? Number(attributes['network.transport']),
    ...{ source: end('source'), destination: end('destination'), sourcePod: pod('source'), destinationPod: pod('destination') },
    service: serviceName === '' ? '' : `${serviceName} ${attributes['seine.service.address']} ${attributes['seine.service.port']}`,
    egressPolicy: policyOf(attributes['seine.egress.rules']),
    ingressPolicy: policyOf(attributes['seine.ingress.rules']),
    ...(bytes && { bytes }),
    ...(packets && { packets }),
  };
}

function joined(namespace: string | undefined, name: string | undefined): string {
  return namespace === undefined ? '' : `${namespace}/${name}`;
}

function policyOf(rules = ''): string {
  return rules.split(/[ ,]/, 1)[0] ?? '';
}
