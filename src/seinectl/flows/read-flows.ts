import * as z from 'zod';
import { endKinds, type FlowLine, type FlowSummaries, flowEvents, flowVerdicts, type lossCauses } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Answers of agents come from nodes that may be compromised: sizes are limited, and unknown fields of newer releases are ignored. */
const text = z.string().max(1_024);
const end = z.object({
  address: text,
  port: z.int().min(0).max(65_535).optional(),
  kind: z.enum(endKinds).catch('unknown'),
  namespace: text.optional(),
  name: text.optional(),
  workload: text.optional(),
});
const decision = z.object({ verdict: z.enum(['allowed', 'denied']), by: z.array(text).max(64) });
const both = z.object({ out: text, in: text });
const flow = z.object({
  node: text,
  number: z.int(),
  time: z.iso.datetime(),
  event: z.enum(flowEvents),
  verdict: z.enum(flowVerdicts),
  reporter: z.enum(['source', 'destination', 'both']),
  family: z.enum(['ipv4', 'ipv6']),
  protocol: text,
  source: end,
  destination: end,
  service: z.object({ address: text, port: z.int().optional(), namespace: text.optional(), name: text.optional() }).optional(),
  egress: decision.optional(),
  ingress: decision.optional(),
  reason: text.optional(),
  repeated: z.int().optional(),
  packets: both.optional(),
  bytes: both.optional(),
  estimated: z.literal(true).optional(),
  startedAt: z.iso.datetime().optional(),
  endedAt: z.iso.datetime().optional(),
});
const count = z.int().min(0);
const losses = z.object({
  sampling: count.default(0),
  meter: count,
  rate: count,
  queue: count,
  ends: count.default(0),
  denied: count,
  names: count,
  kernel: count.default(0),
  disk: count.default(0),
} satisfies Record<(typeof lossCauses)[number], z.ZodType>);
const state = z.object({
  node: text,
  enabled: z.boolean(),
  sampling: z.int().min(2).optional(),
  sources: z.array(text).max(16),
  completeFrom: z.iso.datetime().optional(),
  losses,
  skipped: count,
});
const line = z.union([z.object({ state }), z.object({ flow })]);
const summaries = z.object({
  state,
  since: z.iso.datetime(),
  items: z
    .array(
      z.object({
        reporter: z.enum(['source', 'destination', 'both']).optional(),
        source: text,
        destination: text,
        service: text.optional(),
        protocol: text,
        port: z.int().optional(),
        verdict: z.enum(flowVerdicts),
        rule: text.optional(),
        connections: count,
        bytes: text.regex(/^\d+$/).optional(),
      }),
    )
    .max(1_024),
  others: count,
});

/**
 * Reads a line of an agent's answer.
 *
 * @param now true if open connections were asked for: an agent before 0.29 answers with records, which have numbers
 * @throws SeineError `PROTOCOL`; `INVALID_INPUT` for such an agent
 */
export function readFlowLine(written: string, { now }: { readonly now?: true } = {}): FlowLine {
  const found = read(line, written) as FlowLine;
  if (now && 'flow' in found && found.flow.number >= 0)
    throw new SeineError('INVALID_INPUT', '--now: the agent does not list open connections, its release is older than 0.29');
  return found;
}

/** Reads an agent's summary. @throws SeineError `PROTOCOL` */
export function readSummaries(written: string): FlowSummaries {
  return read(summaries, written) as FlowSummaries;
}

function read<T>(schema: z.ZodType<T>, written: string): T {
  try {
    return schema.parse(JSON.parse(written));
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'the answer is no flow log; the agent may be older than this seinectl', { cause });
  }
}
