import type { FlowSummary } from '../../../api/flow-log.ts';
import { protocolNames } from '../../../policy/denied-log/denied-packet.ts';
import type { FlowRecord, RecordedEnd } from './flow-record.ts';
import { workloadOf } from './workload-of.ts';

const MINUTE_MS = 60_000;
const minutesMax = 60;
/** Maximum number of different summaries of a minute. */
const keysMax = 512;
/** Maximum number of different summaries of an answer. */
const answerMax = 512;

interface Minute {
  readonly minute: number;
  readonly byKey: Map<string, FlowSummary>;
  others: number;
}

/** Summaries of one minute, and the number of its connections that are in none of them. */
export interface SummaryMinute {
  readonly minute: number;
  readonly items: readonly FlowSummary[];
  readonly others: number;
}

/**
 * Connections by minute, workloads, Service, port, verdict and rule. Opened, denied and refused connections are counted; a closed one adds
 * its bytes to that of its ends. Connections beyond the limit of a minute are counted together.
 */
export class FlowSummaryMinutes {
  #minutes: Minute[] = [];

  add(record: FlowRecord): void {
    if (record.event === 'gap') return;
    const number = Math.floor(record.timeMs / MINUTE_MS);
    let minute = this.#minutes.at(-1);
    // A clock that was set back continues the newest minute: order within a boot does not change.
    if (!minute || minute.minute < number) {
      minute = { minute: number, byKey: new Map(), others: 0 };
      this.#minutes = [...this.#minutes.filter((each) => each.minute > number - minutesMax), minute];
    }
    const connections = record.event === 'closed' || record.event === 'seen' ? 0 : 1;
    const parts = partsOf(record);
    const key = JSON.stringify(parts);
    const known = minute.byKey.get(key);
    if (known) minute.byKey.set(key, summed(known, connections, bytesOf(record)));
    else if (minute.byKey.size < keysMax) minute.byKey.set(key, summed({ ...parts, connections: 0 }, connections, bytesOf(record)));
    else minute.others += connections;
  }

  /** Returns minutes by their number since 1970, the first of them included and the last not. */
  minutesBetween(first: number, last: number): readonly SummaryMinute[] {
    return this.#minutes
      .filter(({ minute }) => minute >= first && minute < last)
      .map(({ minute, byKey, others }) => ({ minute, items: [...byKey.values()], others }));
  }

  /** Returns sums since a time, the largest number of connections first. @param sinceMs Unix time; its minute is included as a whole */
  since(sinceMs: number): { readonly sinceMs: number; readonly items: readonly FlowSummary[]; readonly others: number } {
    const first = Math.floor(sinceMs / MINUTE_MS);
    const minutes = this.#minutes.filter(({ minute }) => minute >= first);
    const sums = new Map<string, FlowSummary>();
    for (const { byKey } of minutes)
      for (const [key, { connections, bytes, ...parts }] of byKey)
        sums.set(key, summed(sums.get(key) ?? { ...parts, connections: 0 }, connections, bytes === undefined ? undefined : BigInt(bytes)));
    const items = [...sums.values()].sort((a, b) => b.connections - a.connections || (labelOf(a) < labelOf(b) ? -1 : 1));
    const count = (total: number, { connections }: FlowSummary): number => total + connections;
    return {
      sinceMs: first * MINUTE_MS,
      items: items.slice(0, answerMax),
      others: minutes.reduce((total, { others }) => total + others, 0) + items.slice(answerMax).reduce(count, 0),
    };
  }
}

function labelOf({ source, destination, port = 0 }: FlowSummary): string {
  return `${source} ${destination} ${port}`;
}

function summed(to: FlowSummary, connections: number, bytes: bigint | undefined): FlowSummary {
  return {
    ...to,
    connections: to.connections + connections,
    ...(bytes !== undefined && { bytes: String(BigInt(to.bytes ?? 0) + bytes) }),
  };
}

function bytesOf({ bytes }: FlowRecord): bigint | undefined {
  return bytes && BigInt(bytes.out) + BigInt(bytes.in);
}

type SummaryKey = Omit<FlowSummary, 'connections' | 'bytes'>;

function partsOf({ reporter, source, destination, service, protocol, verdict, egress, ingress }: FlowRecord): SummaryKey {
  const decided = verdict === 'allowed' ? (ingress ?? egress) : [egress, ingress].find((each) => each?.verdict === 'denied');
  const rule = decided?.by[0];
  return {
    reporter,
    source: summaryEnd(source),
    destination: summaryEnd(destination),
    ...(service?.name !== undefined && { service: service.name }),
    protocol: protocolNames[protocol] ?? String(protocol),
    ...(destination.port !== undefined && { port: destination.port }),
    verdict,
    ...(rule !== undefined && { rule }),
  };
}

/** `namespace/workload` of a pod, `node NAME`, `outside`, `unknown`: never an address, whose number has no bound. */
function summaryEnd({ kind, name }: RecordedEnd): string {
  if (name === undefined) return kind;
  if (kind !== 'pod') return `${kind} ${name}`;
  const [namespace = '', pod = ''] = name.split('/');
  return `${namespace}/${workloadOf({ name: pod })}`;
}
