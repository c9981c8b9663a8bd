import * as z from 'zod';
import { defaultPaths } from '../../api/default-paths.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from '../../kubernetes/client/http-client.ts';
import { listObjects, metadataOnly } from '../../kubernetes/client/reflector/object-list.ts';
import { listOf, parseObject } from '../../kubernetes/client/resource.ts';

/** Pod of the agent, of any pool and version. */
export interface AgentPod {
  readonly node: string;
  readonly namespace: string;
  readonly pod: string;
  /** `default` for the nodes that are in no pool. */
  readonly pool: string;
  readonly image: string;
  /** Program that copies its standard streams to the agent's socket, and this socket: those of the agent's probes. */
  readonly relay: { readonly program: string; readonly socket: string };
  /** Reason why it is not queried: it does not run. */
  readonly trouble?: string;
}

/** Agents and nodes in the API server. */
export interface Fleet {
  /** Pods by name of the node. */
  readonly pods: readonly AgentPod[];
  /** Linux nodes without an agent's pod of any pool; null if unknown. */
  readonly without: readonly string[] | null;
  /** Reason why it is unknown. */
  readonly unknown?: string;
}

/** Label of the pods of every pool and release; build/manifests/part.ts. */
const AGENTS = 'app.kubernetes.io/name=seine-agent';
const CONTAINER = 'agent';
/** Path in the image; build/manifests/agent-daemon-set.ts. */
const PLUGIN_PATH = '/opt/seine/cni/seine';
const defaultPool = 'default';
const SLICE_MS = 20;

const waiting = z
  .object({ reason: z.string().nullish() })
  .nullish()
  .transform((value) => value?.reason ?? undefined);

const probe = z.object({ exec: z.object({ command: listOf(z.string()) }).nullish() }).nullish();

const podSchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string(), labels: z.record(z.string(), z.string()).nullish() }),
  spec: z.object({
    nodeName: z.string().nullish(),
    containers: listOf(z.object({ name: z.string(), image: z.string().nullish(), livenessProbe: probe })),
  }),
  status: z
    .object({
      phase: z.string().nullish(),
      initContainerStatuses: listOf(z.object({ name: z.string(), state: z.object({ waiting, terminated: waiting }).nullish() })),
      containerStatuses: listOf(z.object({ name: z.string(), state: z.object({ waiting, terminated: waiting }).nullish() })),
    })
    .nullish(),
});

/** Finds every agent's pod, and the nodes that have none. @throws SeineError like `listObjects`, for the pods */
export async function findAgents(http: KubeHttp, namespace: string, pool: string | undefined, signal: AbortSignal): Promise<Fleet> {
  const turns = new LoopTurns(SLICE_MS);
  const pods: AgentPod[] = [];
  const path = `/api/v1/namespaces/${segment(namespace)}/pods`;
  for await (const pod of listObjects({ http, turns }, { kind: 'Pod', path, labelSelector: AGENTS, project: agentPod }, signal))
    pods.push(pod);
  // Of several pods on a node, such as an evicted one and its replacement, the first answers.
  const isInTrouble = ({ trouble }: AgentPod): number => (trouble === undefined ? 0 : 1);
  pods.sort((a, b) => a.node.localeCompare(b.node, 'en', { numeric: true }) || isInTrouble(a) - isInTrouble(b) || (a.pod < b.pod ? -1 : 1));
  // A pool consists of the nodes of its pods: only its manifest defines which other nodes it should have.
  if (pool !== undefined) return { pods: pods.filter((each) => each.pool === pool), without: [] };
  const served = new Set(pods.map(({ node }) => node));
  try {
    const without: string[] = [];
    for await (const node of listObjects({ http, turns }, nodes, signal)) if (!served.has(node)) without.push(node);
    return { pods, without: without.toSorted() };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'nodes');
    if (error.code !== 'REFUSED') throw error;
    return { pods, without: null, unknown: error.rawMessage };
  }
}

const nodeSchema = z.object({ metadata: z.object({ name: z.string() }) });

const nodes = {
  kind: 'Node',
  path: '/api/v1/nodes',
  labelSelector: 'kubernetes.io/os=linux',
  accept: metadataOnly,
  project: (raw: unknown): string => parseObject(nodeSchema, raw).metadata.name,
};

function agentPod(raw: unknown): AgentPod {
  const { metadata, spec, status } = parseObject(podSchema, raw);
  const trouble = troubleOf(status);
  const agent = spec.containers.find(({ name }) => name === CONTAINER);
  return {
    node: spec.nodeName ?? '',
    namespace: metadata.namespace,
    pod: metadata.name,
    pool: metadata.labels?.['seine.dev/pool'] ?? defaultPool,
    image: agent?.image ?? '',
    relay: relayOf(agent?.livenessProbe?.exec?.command ?? []),
    ...(spec.nodeName ? (trouble === undefined ? {} : { trouble }) : { trouble: 'its pod is on no node yet' }),
  };
}

/** @param command the probe `PROGRAM --probe livez SOCKET` of the manifest */
function relayOf([program, option, , socket]: readonly string[]): AgentPod['relay'] {
  if (option !== '--probe' || !program?.startsWith('/') || !socket?.startsWith('/'))
    return { program: PLUGIN_PATH, socket: defaultPaths.apiSocket };
  return { program, socket };
}

function troubleOf(status: z.output<typeof podSchema>['status']): string | undefined {
  const agent = status?.containerStatuses.find(({ name }) => name === CONTAINER);
  const stuck = [agent, ...(status?.initContainerStatuses ?? [])].flatMap((each) => (each?.state?.waiting ? [each] : []))[0];
  if (stuck !== undefined) return `its container ${stuck.name} waits: ${stuck.state?.waiting}`;
  if (agent?.state?.terminated) return `its container has ended: ${agent.state.terminated}`;
  return status?.phase === 'Running' ? undefined : `its pod is ${status?.phase ?? 'without a state'}`;
}

const AGAIN_MS = 5_000;
const AGENTS_PER_SECOND = 50;

/** Returns the interval (ms) at which a command that follows agents looks for them again: longer in large clusters, whose lists are long. */
export function findAgainMs(agents: number): number {
  return Math.max(AGAIN_MS, Math.ceil(agents / AGENTS_PER_SECOND) * 1_000);
}

/** Names nodes that were followed and have no agent that answers, once for each reason. */
export class FollowedGaps {
  readonly #remark: (text: string) => void;
  readonly #gaps = new Map<string, string>();

  constructor(remark: (text: string) => void) {
    this.#remark = remark;
  }

  /** @param followed agents that were followed until now. @param found all that there are */
  see(followed: readonly AgentPod[], found: readonly AgentPod[]): void {
    const running = new Set(found.flatMap(({ node, trouble }) => (trouble === undefined ? [node] : [])));
    for (const node of this.#gaps.keys()) if (running.has(node)) this.#gaps.delete(node);
    for (const node of new Set([...followed.map((each) => each.node), ...this.#gaps.keys()])) {
      if (running.has(node)) continue;
      const reason = found.find((pod) => pod.node === node)?.trouble ?? 'no agent has a pod there';
      if (this.#gaps.get(node) !== reason) this.#remark(`${node} is not followed: ${reason}`);
      this.#gaps.set(node, reason);
    }
  }
}

/** Returns the agents that can be followed: all, or if these are too many, those of the nodes that have been followed. */
export function followable(agents: readonly AgentPod[], known: ReadonlySet<string>, most: number): readonly AgentPod[] {
  return agents.length > most ? agents.filter(({ node }) => known.has(node)).slice(0, most) : agents;
}
