import * as z from 'zod';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from '../../kubernetes/client/http-client.ts';
import { listObjects } from '../../kubernetes/client/reflector/object-list.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import type { AgentPod, Fleet } from '../fleet/agents.ts';
import type { TimelineEvent } from './timeline-lines.ts';
import type { TimelineQuery } from './timeline-query.ts';

/** Maximum number of events of the API server. */
const API_EVENTS_MAX = 10_000;

/** Returns the agents to ask: that of the node, or of the pod's node if the pod exists, otherwise all. */
export async function agentsFor(
  { subject }: TimelineQuery,
  http: KubeHttp,
  { pods }: Fleet,
  signal: AbortSignal,
): Promise<readonly AgentPod[]> {
  const [kind, ...name] = (subject ?? '').split('/');
  if (kind === 'node') return pods.filter(({ node }) => node === name[0]);
  if (kind !== 'pod') return pods;
  const path = `/api/v1/namespaces/${segment(name[0] ?? '')}/pods/${segment(name[1] ?? '')}`;
  const pod = await http.json({ path }, signal).catch((thrown: unknown) => {
    if (SeineError.from(thrown, 'read the pod').code === 'INVARIANT') throw thrown;
    return undefined; // it was deleted, or may not be read: any node may know of it
  });
  const read = z.object({ spec: z.object({ nodeName: z.string() }) }).safeParse(pod);
  const own = read.success ? pods.filter(({ node }) => node === read.data.spec.nodeName) : [];
  return own.length > 0 ? own : pods;
}

const apiEventSchema = z.object({
  metadata: z.object({ creationTimestamp: z.string().nullish() }),
  reason: z.string().nullish(),
  message: z.string().nullish(),
  type: z.string().nullish(),
  count: z.number().nullish(),
  eventTime: z.string().nullish(),
  firstTimestamp: z.string().nullish(),
  lastTimestamp: z.string().nullish(),
  involvedObject: z.object({ kind: z.string().nullish(), namespace: z.string().nullish(), name: z.string().nullish() }),
});

const involvedKinds: Readonly<Record<string, string>> = { pod: 'Pod', service: 'Service', node: 'Node', policy: 'NetworkPolicy' };

interface ApiEvents {
  readonly events: readonly TimelineEvent[];
  /** Reason why some or all are missing. */
  readonly missing?: string;
}

/** Reads Events of the API server about the subject, or about nodes. @throws SeineError `CANCELLED` */
export async function apiEvents(http: KubeHttp, { subject, fromMs, untilMs }: TimelineQuery, signal: AbortSignal): Promise<ApiEvents> {
  const [kind = 'node', ...name] = (subject ?? 'node').split('/');
  const [namespace, object] = name.length === 2 ? [name[0], name[1]] : [undefined, name[0]];
  const path = namespace === undefined ? '/api/v1/events' : `/api/v1/namespaces/${segment(namespace)}/events`;
  const fieldSelector = [
    `involvedObject.kind=${involvedKinds[kind]}`,
    ...(object === undefined ? [] : [`involvedObject.name=${object}`]),
  ].join(',');
  const found: TimelineEvent[] = [];
  try {
    const resource = { kind: 'Event', path, fieldSelector, project: (raw: unknown) => timelineEvent(parseObject(apiEventSchema, raw)) };
    for await (const event of listObjects({ http, turns: new LoopTurns(20) }, resource, signal)) {
      const atMs = Date.parse(event.time);
      if (atMs >= fromMs && atMs <= (untilMs ?? Number.MAX_SAFE_INTEGER) && found.push(event) >= API_EVENTS_MAX) break;
    }
  } catch (thrown) {
    const error = SeineError.from(thrown, 'list events');
    if (error.code === 'CANCELLED' || error.code === 'INVARIANT') throw error;
    return { events: found, missing: error.rawMessage };
  }
  return { events: found };
}

function timelineEvent(event: z.output<typeof apiEventSchema>): TimelineEvent | undefined {
  const { metadata, reason, message, count, involvedObject: of } = event;
  const when = event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? metadata.creationTimestamp ?? '';
  const atMs = Date.parse(when);
  if (Number.isNaN(atMs)) return undefined;
  const kind = Object.entries(involvedKinds).find(([, name]) => name === of.kind)?.[0] ?? '';
  const subject = of.namespace && kind !== 'node' ? `${kind}/${of.namespace}/${of.name}` : `${kind}/${of.name}`;
  const times = (count ?? 1) > 1 ? ` (${count} times)` : '';
  return {
    time: new Date(atMs).toISOString(),
    nodes: [],
    kind: `event.${reason ?? ''}`,
    subjects: [subject],
    text: `${message ?? ''}${times}`,
    data: { type: event.type ?? '' },
  };
}
