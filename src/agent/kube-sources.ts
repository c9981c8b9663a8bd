import { LoopTurns } from '../base/async/loop-turns.ts';
import { pause } from '../base/async/pause.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import type { Log } from '../base/log/log.ts';
import { loadKubeAccess } from '../kubernetes/client/config.ts';
import { EventPoster } from '../kubernetes/client/events.ts';
import { KubeHttp } from '../kubernetes/client/http-client.ts';
import { type Reflector, Reflector as Watching } from '../kubernetes/client/reflector/reflector.ts';
import type { ReflectorReport, ReflectorStatus } from '../kubernetes/client/reflector/reflector-report.ts';
import type { Replica } from '../kubernetes/client/replica/replica.ts';
import type { Resource } from '../kubernetes/client/resource.ts';
import { type ClusterNetworkPolicy, clusterNetworkPoliciesOf } from '../kubernetes/resources/cluster-network-policy.ts';
import { clusterPolicyApi } from '../kubernetes/resources/cluster-policy-api.ts';
import { endpointSlices } from '../kubernetes/resources/endpoint-slice.ts';
import { type LiveSettings, liveSettings, liveSettingsKey } from '../kubernetes/resources/live-settings.ts';
import { namespaces } from '../kubernetes/resources/namespace.ts';
import { networkPolicies } from '../kubernetes/resources/network-policy.ts';
import { type Node, nodes } from '../kubernetes/resources/node.ts';
import { type pods, podsOf } from '../kubernetes/resources/pod.ts';
import { policyPods } from '../kubernetes/resources/policy-pod.ts';
import { services } from '../kubernetes/resources/service.ts';
import type { AgentConfig } from './config/agent-config.ts';

/** Maximum time that one of our jobs keeps the event loop (ms), and much less while a plugin waits for its answer. */
const SLICE_MS = 4;
const SHORT_SLICE_MS = 1;
/** Interval between checks of sources that were synced and no longer are (ms). */
const SYNCED_CHECK_MS = 250;
/** Maximum time that a start waits for the first lists of its other sources, and interval of the checks (ms). */
const START_PATIENCE_MS = 5_000;
const START_CHECK_MS = 20;
/**
 * The list of all pods is the largest request of a start to an API server: with 5,000 nodes a thousand agents per second may request it.
 */
const FIRST_LISTS = { msOfNode: 1, maxMs: 10_000 } as const;

/** Resources that the agent reads from the Kubernetes API, each a copy that stays up to date. */
export interface KubeSources {
  readonly http: KubeHttp;
  /** Shares the loop between the long jobs of the agent. */
  readonly turns: LoopTurns;
  readonly nodes: Reflector<ReturnType<typeof nodes.project> & {}>;
  readonly services: Reflector<ReturnType<typeof services.project> & {}>;
  readonly endpointSlices: Reflector<ReturnType<typeof endpointSlices.project> & {}>;
  readonly networkPolicies: Reflector<ReturnType<typeof networkPolicies.project> & {}>;
  /** Empty while the cluster does not serve the resource. */
  readonly clusterNetworkPolicies: Reflector<ClusterNetworkPolicy>;
  readonly namespaces: Reflector<ReturnType<typeof namespaces.project> & {}>;
  /** Pods of the whole cluster, without those of the host network. */
  readonly policyPods: Reflector<ReturnType<typeof policyPods.project> & {}>;
  /** Pods of this node only. */
  readonly pods: Reflector<ReturnType<typeof pods.project> & {}>;
  readonly liveSettings: Reflector<LiveSettings>;
  readonly events: EventPoster;
}

interface KubeSourcesOptions {
  readonly stateDir: string;
  readonly log: Log;
  readonly onFailure?: (kind: string, error: SeineError) => void;
  /** Called with every report about a copy. */
  readonly onReport?: (kind: string, report: ReflectorReport) => void;
}

/** @throws SeineError `INVALID_INPUT` if there is no usable access to an API server */
export function openKubeSources(config: AgentConfig, { stateDir, log, onFailure, onReport: reported }: KubeSourcesOptions): KubeSources {
  const access = config.kubeconfig === undefined ? ({ from: 'cluster' } as const) : ({ from: 'file', path: config.kubeconfig } as const);
  const server = config.kubeAPIServerOverride;
  const http = new KubeHttp(loadKubeAccess({ ...access, ...(server === undefined ? {} : { server }) }), 'seine-agent');
  const turns = new LoopTurns(SLICE_MS, SHORT_SLICE_MS);
  const watch = <T>(
    resource: Resource<T>,
    whenToBegin?: (signal: AbortSignal) => Promise<void>,
    from: Pick<KubeHttp, 'stream'> = http,
  ): Reflector<T> =>
    new Watching({
      http: from,
      resource,
      ...(whenToBegin ? { whenToBegin } : {}),
      turns,
      stateDir,
      onReport: (report) => {
        reported?.(resource.kind, report);
        if (report.what === 'failed') onFailure?.(resource.kind, report.error);
        reportTo(log.child({ resource: resource.kind }), resource.kind, report);
      },
    });
  const eventLost = (error: Error): void => log.failing('events', 'an Event could not be posted', { cause: error.message });
  const nodesSource = watch(nodes);
  return {
    http,
    turns,
    nodes: nodesSource,
    services: watch(services),
    endpointSlices: watch(endpointSlices),
    networkPolicies: watch(networkPolicies),
    clusterNetworkPolicies: watch(clusterNetworkPoliciesOf('v1beta1'), undefined, clusterPolicyApi(http)),
    namespaces: watch(namespaces),
    policyPods: watch(policyPods, (signal) => untilTurnToList(nodesSource, Math.random(), signal)),
    pods: watch(podsOf(config.nodeName)),
    liveSettings: watch(liveSettings),
    events: new EventPoster({ http, component: 'seine-agent', instance: config.nodeName, onFailure: eventLost }),
  };
}

/** Runs all of them until `signal`. @throws SeineError `INVARIANT` */
export async function runKubeSources(sources: KubeSources, signal: AbortSignal): Promise<void> {
  const { nodes, services, endpointSlices, networkPolicies, clusterNetworkPolicies: ofCluster, events } = sources;
  const { namespaces: ns, policyPods: all, pods, liveSettings: live } = sources;
  try {
    const running = [nodes, services, endpointSlices, networkPolicies, ofCluster, ns, all, pods, live, events];
    await Promise.all(running.map((source) => source.run(signal)));
  } finally {
    sources.http.close();
  }
}

/** Part of a source that is needed to determine whether it is synced. */
export interface JudgedSource {
  readonly replica: Pick<Replica<unknown>, 'whenSynced'>;
  readonly status: Pick<ReflectorStatus, 'state'>;
}

/** Waits until each of these is synced, all at the same moment: one that was and is refused now does not count. */
export async function whenInStep(sources: readonly JudgedSource[], signal: AbortSignal): Promise<void> {
  await Promise.all(sources.map(({ replica }) => replica.whenSynced(signal)));
  while (!sources.every(({ status }) => status.state === 'in step')) {
    await pause(SYNCED_CHECK_MS, signal);
    signal.throwIfAborted();
  }
}

/** Reports whether the contents of this source are known: synced since this process began, or stored by an earlier one. */
export function isKnown({
  replica,
  status,
}: {
  readonly replica: Pick<Replica<unknown>, 'synced'>;
  readonly status: Pick<ReflectorStatus, 'version'>;
}): boolean {
  return replica.synced || status.version !== '';
}

/** Returns the settings of all nodes; undefined if there are none. */
export function liveSettingsOf({ liveSettings }: Pick<KubeSources, 'liveSettings'>): LiveSettings | undefined {
  return liveSettings.replica.get(liveSettingsKey);
}

/**
 * Resolves once the settings for all nodes are known, or known to be unavailable: a first flow in another mode would cut connections.
 *
 * @throws the signal's reason
 */
export async function whenSettingsKnown({ liveSettings }: Pick<KubeSources, 'liveSettings'>, signal: AbortSignal): Promise<void> {
  await untilTried(liveSettings, signal);
  signal.throwIfAborted();
}

/** Source with known contents, or one that has failed. */
interface KnownSource {
  readonly replica: Pick<Replica<unknown>, 'synced'>;
  readonly status: Pick<ReflectorStatus, 'version' | 'failures'>;
}

/**
 * Resolves once each of these has its first list, or has failed, or after `patienceMs`: the start then uses lists of about one moment, if
 * the API server answers.
 *
 * @throws the signal's reason
 */
export async function whenListsTried(sources: readonly KnownSource[], patienceMs: number, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.timeout(patienceMs);
  const isTried = ({ replica, status }: KnownSource): boolean => replica.synced || status.failures > 0;
  while (!sources.every(isTried) && !patience.aborted && !signal.aborted) await pause(START_CHECK_MS, signal);
  signal.throwIfAborted();
}

/** Waits at most for the patience of a start, or until `signal` is aborted. */
async function untilTried(source: KnownSource, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.timeout(START_PATIENCE_MS);
  while (!isKnown(source) && source.status.failures === 0 && !patience.aborted && !signal.aborted) await pause(START_CHECK_MS, signal);
}

/**
 * Resolves when this agent may list the pods of the cluster, or once `signal` is aborted: agents that start together, as after an outage or
 * in a roll-out, do so one after another, each at a random time of a span that depends on the number of nodes. Until then it uses the
 * contents that an earlier agent has stored.
 *
 * @param chance 0 to 1, of this agent
 */
export async function untilTurnToList(
  nodes: KnownSource & { readonly replica: { readonly size: number } },
  chance: number,
  signal: AbortSignal,
): Promise<void> {
  await untilTried(nodes, signal);
  await pause(chance * firstListsSpanMs(nodes.replica.size), signal);
}

/** Returns the span in which the agents of a cluster of this size list its pods. */
export function firstListsSpanMs(nodes: number): number {
  return Math.min(nodes * FIRST_LISTS.msOfNode, FIRST_LISTS.maxMs);
}

/** Keeps a warning about unusable pod networks of its own Node object. */
export function warnOfPodNetworks(nodes: Replica<Node>, nodeName: string, warnings: Map<string, readonly string[]>): void {
  nodes.subscribe((names) => {
    if (!names.has(nodeName)) return;
    const refused = nodes.get(nodeName)?.refusedPodCidrs ?? [];
    if (refused.length === 0) warnings.delete(POD_NETWORKS);
    else
      warnings.set(
        POD_NETWORKS,
        refused.map((why) => `a pod network of this node is left out: ${why}`),
      );
  });
}

/** Keeps a warning if the agent watches more pods than intended. It continues; nothing is opened or closed because of it. */
export function warnOfWatchedPods(
  pods: Pick<Replica<unknown>, 'size' | 'subscribe'>,
  most: number,
  warnings: Map<string, readonly string[]>,
): void {
  pods.subscribe(() => {
    if (pods.size <= most) warnings.delete(WATCHED_PODS);
    else
      warnings.set(WATCHED_PODS, [
        `${pods.size} pods of the cluster are watched, more than policy.directWatchPods (${most}): policies are enforced, but the agent needs more memory than intended`,
      ]);
  });
}

/** Names of the warnings. */
const WATCHED_PODS = 'watched pods';
const POD_NETWORKS = 'pod networks';

const reports: Readonly<Record<ReflectorReport['what'], readonly [level: 'info' | 'warn' | 'error', message: string]>> = {
  restored: ['info', 'last known objects restored from disk'],
  synced: ['info', 'synced with the API server'],
  failed: ['warn', 'the API server cannot be followed'],
  behind: ['warn', 'the API server has an older state than before; a quorum read follows if it persists'],
  held: ['error', 'a list lacks too many objects; nothing is removed until a second one agrees'],
  refuted: ['warn', 'a second list has all that the first one lacked'],
  released: ['warn', 'a second list agrees; the objects are removed'],
  invalid: ['warn', 'an object is not usable'],
  unreadable: ['warn', 'invalid object from the API server'],
  storage: ['warn', 'the copy on disk failed'],
  recovered: ['info', 'the API server is followed again'],
};

function reportTo(log: Log, kind: string, { what, ...rest }: ReflectorReport): void {
  const [level, message] = reports[what];
  if (what === 'synced' || what === 'recovered') log.working(`source ${kind}`);
  if (what === 'recovered') return;
  if (what === 'failed' || what === 'unreadable' || what === 'storage') {
    const cause = 'error' in rest ? rest.error.message : 'why' in rest ? rest.why : '';
    log.failing(what === 'failed' ? `source ${kind}` : `${what} ${kind}`, message, { ...rest, error: undefined, cause });
    return;
  }
  log[level](message, 'error' in rest ? { ...rest, error: rest.error.message } : rest);
}
