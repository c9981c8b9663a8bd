import * as z from 'zod';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { segment } from '../../kubernetes/client/http-client.ts';
import { listObjects, metadataOnly } from '../../kubernetes/client/reflector/object-list.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { matrixOf } from '../../simulate/views/policy-matrix.ts';
import type { FormNames } from '../../ui/answers/explained.ts';
import type { ReachMatrix } from '../../ui/answers/policy-matrix.ts';
import type { ShownSource } from '../../ui/answers/shown-source.ts';
import type { UiRoute } from '../../ui/server/ui-server.ts';
import { readObjects } from '../reach/sources.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { edgeFlowsAnswer } from './edge-flows-answer.ts';
import { explainAnswer } from './explain-answer.ts';
import { LastAnswers } from './last-answers.ts';
import { timelineAnswer } from './timeline-answer.ts';
import { traceAnswer } from './trace-answer.ts';
import { trafficAnswer } from './traffic-answer.ts';
import { usedAnswer } from './used-answer.ts';
import { whatIfAnswer } from './what-if-answer.ts';

const NAMES_MAX = 1_000;
const SLICE_MS = 10;

/** Questions of the page, by path below `/api/`. */
export function routesOf(connection: ClusterConnection): Readonly<Record<string, UiRoute>> {
  const last = new LastAnswers(Date.now);
  const routes: Readonly<Record<string, UiRoute>> = {
    now: (_, signal) => connection.now(signal),
    policy: (query) => policyAnswer(query, connection),
    used: (query, signal) => usedAnswer(query, connection, signal),
    explain: (query, signal) => explainAnswer(query, connection, signal),
    traffic: (query, signal) => trafficAnswer(query, connection, signal),
    flows: (query, signal) => edgeFlowsAnswer(query, connection, signal),
    timeline: (query, signal) => timelineAnswer(query, connection, signal),
    names: (query, signal) => namesAnswer(query, connection, signal),
    source: () => Promise.resolve<ShownSource>({ kind: 'cluster' }),
  };
  return Object.fromEntries(Object.entries(routes).map(([name, route]) => [name, last.route(name, route)]));
}

/** Questions that make agents read the bridge, or the API server try a proposal. */
export function actionsOf(connection: ClusterConnection): Readonly<Record<string, UiRoute>> {
  const aged = async (answer: Promise<unknown>) => ({ answer: await answer, atMs: Date.now() });
  return {
    trace: (query) => aged(traceAnswer(query, connection.cluster)),
    whatif: (query, _, text) => aged(whatIfAnswer(query, text, connection.cluster)),
  };
}

async function policyAnswer(query: URLSearchParams, { cluster }: ClusterConnection): Promise<ReachMatrix> {
  const namespace = query.get('namespace') ?? '';
  if (namespace === '') throw new SeineError('INVALID_INPUT', 'namespace: a name is required');
  const { kubeconfig, context, env } = cluster;
  return matrixOf(await readObjects({ ...(kubeconfig && { kubeconfig }), ...(context && { context }) }, env, () => undefined), namespace);
}

const namedSchema = z.object({ metadata: z.object({ name: z.string(), namespace: z.string().nullish() }) });
const kinds = {
  namespace: { kind: 'Namespace', path: '/api/v1/namespaces' },
  pod: { kind: 'Pod', path: '/api/v1/pods' },
  service: { kind: 'Service', path: '/api/v1/services' },
  node: { kind: 'Node', path: '/api/v1/nodes' },
  policy: { kind: 'NetworkPolicy', path: '/apis/networking.k8s.io/v1/networkpolicies' },
} as const;

/** Lists names for the forms; with `namespace` only those of it. */
async function namesAnswer(query: URLSearchParams, { http }: ClusterConnection, signal: AbortSignal): Promise<FormNames> {
  const asked = query.get('kind') ?? '';
  if (!Object.hasOwn(kinds, asked)) throw new SeineError('INVALID_INPUT', `kind: ${Object.keys(kinds).join(', ')}`);
  const { kind, path } = kinds[asked as keyof typeof kinds];
  const namespace = query.get('namespace');
  const names: string[] = [];
  let more = 0;
  const resource = {
    kind,
    path: namespace ? path.replace('/api/v1/', `/api/v1/namespaces/${segment(namespace)}/`) : path,
    accept: metadataOnly,
    project: (raw: unknown): string => {
      const { metadata } = parseObject(namedSchema, raw);
      return metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
    },
  };
  for await (const name of listObjects({ http, turns: new LoopTurns(SLICE_MS) }, resource, signal))
    if (names.length < NAMES_MAX) names.push(name);
    else more++;
  return { names: names.toSorted(), more };
}
