import type { FlowSummary } from '../../../api/flow-log.ts';
import { protocolNames } from '../../../policy/denied-log/denied-packet.ts';
import type { FlowRecord, RecordedEnd } from '../records/flow-record.ts';
import { workloadOf } from '../records/workload-of.ts';
import type { ExportedItem } from './exported-item.ts';

type OtlpValue = string | number | string[] | boolean;

/** Content of a log record of OpenTelemetry. */
interface OtlpRecord {
  /** Unix time (ms). */
  readonly timeMs: number;
  readonly event: string;
  readonly severity: 'INFO' | 'WARN';
  readonly body: string;
  readonly attributes: Readonly<Record<string, OtlpValue>>;
}

/**
 * Returns an item as a log record. Names of attributes are those of OpenTelemetry's semantic conventions where they have one, else they
 * begin with `seine.`. `k8s.namespace.name` and `k8s.pod.name` are those of the end on this node. Pure.
 */
export function otlpRecord(item: ExportedItem): OtlpRecord {
  switch (item.kind) {
    case 'flow':
      return flowRecord(item.flow);
    case 'summary':
      return summaryRecord(item.minuteMs, item.summary);
    case 'losses':
      return lossesRecord(item);
  }
}

function flowRecord(flow: FlowRecord): OtlpRecord {
  const { event, verdict, protocol, source, destination, service, egress, ingress, reason, packets, bytes, estimated } = flow;
  const transport = protocolNames[protocol] ?? String(protocol);
  const here = flow.reporter === 'destination' ? destination : source;
  if (event === 'gap') return gapRecord(flow);
  return {
    timeMs: flow.timeMs,
    event: `seine.flow.${event}`,
    severity: severityOf(verdict),
    body: `${event === 'opened' && verdict !== 'allowed' ? verdict : event} ${labelOf(source)} -> ${labelOf(destination)} ${transport}`,
    attributes: {
      'seine.flow.verdict': verdict,
      'seine.flow.reporter': flow.reporter,
      'network.transport': transport.toLowerCase(),
      'network.type': source.ip.family,
      ...localPod(here),
      ...endAttributes('source', source),
      ...endAttributes('destination', destination),
      ...(service && {
        'seine.service.address': service.ip.text,
        ...(service.port !== undefined && { 'seine.service.port': service.port }),
        ...named('seine.service', service.name, 'name'),
      }),
      ...(egress && { 'seine.egress.verdict': egress.verdict, 'seine.egress.rules': [...egress.by] }),
      ...(ingress && { 'seine.ingress.verdict': ingress.verdict, 'seine.ingress.rules': [...ingress.by] }),
      ...(reason !== undefined && { 'seine.flow.reason': reason }),
      ...(packets && { 'seine.flow.packets.sent': packets.out, 'seine.flow.packets.received': packets.in }),
      ...(estimated && { 'seine.flow.estimated': true }),
      ...(bytes && { 'seine.flow.bytes.sent': bytes.out, 'seine.flow.bytes.received': bytes.in }),
      ...timesOf(flow),
    },
  };
}

function gapRecord({ timeMs, startedMs, reason = '' }: FlowRecord): OtlpRecord {
  const attributes = { 'seine.flow.reason': reason, ...timesOf({ startedMs }) };
  return { timeMs, event: 'seine.flow.gap', severity: 'WARN', body: `nothing was recorded: ${reason}`, attributes };
}

function timesOf({ startedMs, endedMs }: { readonly startedMs?: number | undefined; readonly endedMs?: number | undefined }) {
  return {
    ...(startedMs !== undefined && { 'seine.flow.started': new Date(startedMs).toISOString() }),
    ...(endedMs !== undefined && { 'seine.flow.ended': new Date(endedMs).toISOString() }),
  };
}

function summaryRecord(minuteMs: number, summary: FlowSummary): OtlpRecord {
  const { reporter, source, destination, service, protocol, port, verdict, rule, connections, bytes } = summary;
  return {
    timeMs: minuteMs,
    event: 'seine.flow.summary',
    severity: severityOf(verdict),
    body: `${connections} ${verdict} ${source} -> ${destination} ${port ?? ''}/${protocol}`,
    attributes: {
      'seine.flow.verdict': verdict,
      ...(reporter !== undefined && { 'seine.flow.reporter': reporter }),
      'network.transport': protocol.toLowerCase(),
      'seine.source.workload': source,
      'seine.destination.workload': destination,
      ...(port !== undefined && { 'destination.port': port }),
      ...named('seine.service', service, 'name'),
      ...(rule !== undefined && { 'seine.flow.rule': rule }),
      'seine.flow.connections': connections,
      // A sum of a minute is below 2^53.
      ...(bytes !== undefined && { 'seine.flow.bytes': Number(bytes) }),
    },
  };
}

function lossesRecord({ minuteMs, losses, others }: Extract<ExportedItem, { kind: 'losses' }>): OtlpRecord {
  const lost = Object.entries(losses).filter(([, count]) => count > 0);
  return {
    timeMs: minuteMs,
    event: 'seine.flow.losses',
    severity: 'WARN',
    body: `connections without a record: ${lost.map(([cause, count]) => `${count} (${cause})`).join(', ') || 'none'}`,
    attributes: {
      ...Object.fromEntries(lost.map(([cause, count]) => [`seine.flow.lost.${cause}`, count])),
      ...(others > 0 && { 'seine.flow.others': others }),
    },
  };
}

function severityOf(verdict: FlowRecord['verdict']): OtlpRecord['severity'] {
  return verdict === 'allowed' ? 'INFO' : 'WARN';
}

function localPod({ kind, name }: RecordedEnd): Readonly<Record<string, string>> {
  if (kind !== 'pod' || name === undefined) return {};
  const [namespace = '', pod = ''] = name.split('/');
  return { 'k8s.namespace.name': namespace, 'k8s.pod.name': pod };
}

function endAttributes(side: 'source' | 'destination', { ip, port, kind, name }: RecordedEnd): Readonly<Record<string, OtlpValue>> {
  return {
    [`${side}.address`]: ip.text,
    ...(port !== undefined && { [`${side}.port`]: port }),
    [`seine.${side}.kind`]: kind,
    ...(kind === 'node' && name !== undefined && { [`seine.${side}.node`]: name }),
    ...(kind === 'pod' && named(`seine.${side}`, name, 'pod')),
    ...(kind === 'pod' && name !== undefined && { [`seine.${side}.workload`]: workloadOf({ name: name.slice(name.indexOf('/') + 1) }) }),
  };
}

/** Attributes for `namespace/name`. */
function named(prefix: string, text: string | undefined, last: string): Readonly<Record<string, string>> {
  if (text === undefined) return {};
  const slash = text.indexOf('/');
  return { [`${prefix}.namespace`]: text.slice(0, slash), [`${prefix}.${last}`]: text.slice(slash + 1) };
}

function labelOf({ ip, port, name }: RecordedEnd): string {
  const place = name ?? (ip.family === 'ipv6' && port !== undefined ? `[${ip.text}]` : ip.text);
  return port === undefined ? place : `${place}:${port}`;
}
