import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Explained } from '../../ui/answers/explained.ts';
import type { AgentClient } from '../agent-client.ts';
import { nodeOfPod } from '../fleet/pod-nodes.ts';
import type { ClusterConnection } from './cluster-connection.ts';

const LINES_MAX = 500;
const LINE_CHARACTERS_MAX = 2_000;

const lines = z.array(z.string().transform((line) => line.slice(0, LINE_CHARACTERS_MAX))).transform((all) => all.slice(0, LINES_MAX));
const podSchema = z.object({ name: z.string(), state: z.string(), lines });
const serviceSchema = z.object({ lines });
const direction = z.object({ state: z.string(), policies: z.array(z.unknown()).catch([]) });
const policySchema = z.object({ ingress: direction, egress: direction });
const statusSchema = z.object({
  node: z.string(),
  readiness: z.object({ state: z.string(), reason: z.string().optional().catch(undefined) }),
  versions: z.record(z.string(), z.unknown()).catch({}),
  problems: z.array(z.object({ kind: z.string(), about: z.string(), message: z.string() })).catch([]),
  healthChecks: z.array(z.object({ name: z.string(), state: z.string(), ageSeconds: z.number().nullable() })).catch([]),
  parts: z.array(z.object({ part: z.string(), wanted: z.number(), held: z.number() })).catch([]),
});

/** Explains a pod, a Service or a node. @throws SeineError `INVALID_INPUT` for an unknown name, `REFUSED`, `UNAVAILABLE` */
export async function explainAnswer(query: URLSearchParams, connection: ClusterConnection, signal: AbortSignal): Promise<Explained> {
  const [kind, name] = [query.get('kind') ?? '', (query.get('name') ?? '').trim()];
  if (name === '') throw new SeineError('INVALID_INPUT', 'name: a name is required');
  const full = kind === 'node' || name.includes('/') ? name : `default/${name}`;
  try {
    if (kind === 'pod') return await podAnswer(full, connection, signal);
    if (kind === 'service') return await serviceAnswer(full, query.get('node') ?? '', connection, signal);
    if (kind === 'node') return await nodeAnswer(full, await connection.agentOf(full, signal), signal);
  } catch (thrown) {
    if (thrown instanceof z.ZodError)
      throw new SeineError('PROTOCOL', 'the answer of the agent has another form: its release may be older');
    const error = SeineError.from(thrown, 'explain');
    // The agent's own refusal: it has no such object.
    throw error.code === 'REFUSED' && error.context['path'] === undefined ? new SeineError('INVALID_INPUT', error.rawMessage) : error;
  }
  throw new SeineError('INVALID_INPUT', 'kind: pod, service or node');
}

async function podAnswer(name: string, connection: ClusterConnection, signal: AbortSignal): Promise<Explained> {
  const node = (await nodeOfPod(connection.http, name, signal)) ?? '';
  const agent = await connection.agentOf(node, signal);
  const query = new URLSearchParams({ name });
  const { state, lines: text } = podSchema.parse(await agent.json(`/v1/explain/pod?${query}`, 'GET', signal));
  const policies = await podPolicies(agent, query, signal);
  return { name, node, isFine: state === 'ok', lines: text, ...(policies && { policies }) };
}

/** Returns nothing for a pod of the host's network, which no policy isolates. */
async function podPolicies(agent: AgentClient, query: URLSearchParams, signal: AbortSignal): Promise<Explained['policies']> {
  const found = await agent.json(`/v1/policy/pod?${query}`, 'GET', signal).then(
    (answer) => policySchema.safeParse(answer),
    () => undefined,
  );
  if (!found?.success) return undefined;
  return (['ingress', 'egress'] as const).map((each) => {
    const { state, policies } = found.data[each];
    const by = policies.flatMap((policy) => (typeof policy === 'string' ? [policy] : namesIn(policy)));
    return { direction: each, text: state, by };
  });
}

function namesIn(policy: unknown): string[] {
  const named = z.object({ name: z.string() }).safeParse(policy);
  return named.success ? [named.data.name] : [];
}

async function serviceAnswer(name: string, node: string, connection: ClusterConnection, signal: AbortSignal): Promise<Explained> {
  const asked = node || ((await connection.fleet(signal)).pods.find(({ trouble }) => trouble === undefined)?.node ?? '');
  const agent = await connection.agentOf(asked, signal);
  const answer = await agent.json(`/v1/explain/service?${new URLSearchParams({ name })}`, 'GET', signal);
  return { name, node: asked, isFine: true, lines: serviceSchema.parse(answer).lines };
}

async function nodeAnswer(name: string, agent: AgentClient, signal: AbortSignal): Promise<Explained> {
  return explainedNode(name, await agent.json('/v1/status', 'GET', signal));
}

/** Explains a node. @param answer of `/v1/status`. @throws ZodError for another form */
export function explainedNode(name: string, answer: unknown): Explained {
  const status = statusSchema.parse(answer);
  const { readiness, problems, healthChecks, parts, versions } = status;
  const stale = healthChecks.filter(({ state }) => state !== 'fresh');
  return {
    name,
    node: name,
    isFine: readiness.state === 'ready' && problems.length === 0,
    lines: [
      readiness.state === 'ready' ? 'The agent is ready.' : `The agent is ${readiness.state}: ${readiness.reason ?? 'no reason'}.`,
      ...problems.map(({ kind, about, message }) => `! ${kind} ${about}: ${message}`),
      ...stale.map((check) => `* check ${check.name} is ${check.state}`),
      ...parts.map(({ part, wanted, held }) => `${part}: ${held} of ${wanted} entries present`),
      ...Object.entries(versions).map(([what, version]) => `${what} ${String(version)}`),
    ],
  };
}
