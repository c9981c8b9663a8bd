import * as z from 'zod';
import { endKinds, flowEvents, flowVerdicts } from '../../../api/flow-log.ts';
import { canonicalIp, parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord, RecordedEnd } from './flow-record.ts';

/*
 * A record as a line on disk: short names, because there are many. Members are extended, and never reused: another release reads them.
 */

const address = z.string().transform((text, context) => {
  if (canonicalIp(text) !== undefined) return parseIp(text);
  context.addIssue({ code: 'custom', message: 'not an address' });
  return z.NEVER;
});
const port = z.int().min(0).max(65_535).exactOptional();
const name = z.string().max(1_024).exactOptional();
const end = z.object({ ip: address, port, kind: z.enum(endKinds), name });
const decision = z.object({ verdict: z.enum(['allowed', 'denied']), by: z.array(z.string().max(1_024)).max(64) }).exactOptional();
const both = z.object({ out: z.number().min(0), in: z.number().min(0) }).exactOptional();

const line = z.object({
  t: z.number(),
  event: z.enum(flowEvents),
  verdict: z.enum(flowVerdicts),
  reporter: z.enum(['source', 'destination', 'both']),
  protocol: z.int().min(0).max(255),
  from: end,
  to: end,
  service: z.object({ ip: address, port, name }).exactOptional(),
  egress: decision,
  ingress: decision,
  reason: z.string().max(1_024).exactOptional(),
  packets: both,
  bytes: both,
  estimated: z.literal(true).exactOptional(),
  started: z.number().exactOptional(),
  ended: z.number().exactOptional(),
});

/** Returns the line of a record, without its end. Pure. */
export function storedFlow(record: FlowRecord): string {
  const { timeMs, event, verdict, reporter, protocol, source, destination, service, startedMs, endedMs } = record;
  const { egress, ingress, reason, packets, bytes, estimated } = record;
  return JSON.stringify({
    ...{ t: timeMs, event, verdict, reporter, protocol, from: endLine(source), to: endLine(destination) },
    ...(service && { service: { ...service, ip: service.ip.text } }),
    ...{ egress, ingress, reason, packets, bytes, estimated, started: startedMs, ended: endedMs },
  });
}

function endLine({ ip, ...rest }: RecordedEnd): object {
  return { ip: ip.text, ...rest };
}

/** Returns the record of a parsed line; undefined for any other line, such as the first one of a file. Pure. */
export function readStoredFlow(value: unknown): FlowRecord | undefined {
  const result = line.safeParse(value);
  if (!result.success) return undefined;
  const { t, from, to, started, ended, ...rest } = result.data;
  const times = { ...(started !== undefined && { startedMs: started }), ...(ended !== undefined && { endedMs: ended }) };
  return { timeMs: t, source: from, destination: to, ...times, ...rest };
}
