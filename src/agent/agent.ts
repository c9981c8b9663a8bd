import { join } from 'node:path';
import type { NodeEnvironment } from '../connectivity/environment.ts';
import type { NodeDatapathEvents } from '../datapath/node-datapath.ts';
import type { SeineError } from '../errors/seine-error.ts';
import { type PeerSource, peersFromNodes } from '../kube/peer-source.ts';
import { fetchPod } from '../kube/pod.ts';
import type { Log } from '../log/log.ts';
import { selfTest } from '../netlink/self-test.ts';
import type { CniServerOptions } from './cni-server.ts';
import type { AgentConfig } from './config.ts';
import { DataPathProbe } from './data-path.ts';
import { type DataPlane, openDataPlane, runDataPlane } from './data-plane.ts';
import type { Ipam } from './ipam/ipam.ts';
import { type KubeSources, openKubeSources, runKubeSources } from './kube-sources.ts';
import type { Observe } from './metrics/record.ts';
import { NodePods } from './node-pods.ts';
import { startNode } from './node-start.ts';
import type { Peers } from './peers.ts';
import type { NodePodNetwork, PodNetworkOptions } from './pod-network.ts';
import type { NodeProxy } from './proxy/node-proxy.ts';
import { Readiness } from './readiness.ts';
import { RepairHistory } from './repair-history.ts';
import { RepairPause } from './repair-pause.ts';
import type { Services } from './services.ts';

export type TellNode = (reason: string, message: string, type?: 'Normal' | 'Warning') => void;

/** The running agent, for those who look at it. */
export interface Agent {
  readonly config: AgentConfig;
  readonly startedAt: Date;
  readonly readiness: Readiness;
  readonly plane: DataPlane;
  readonly sources: KubeSources;
  readonly peers: PeerSource;
  readonly pods: NodePods;
  readonly repair: RepairPause;
  /** What was put back lately. */
  readonly repairs: RepairHistory;
  readonly dataPath: DataPathProbe;
  /** What is wrong with this node, in sentences, by who found it. */
  readonly warnings: Map<string, readonly string[]>;
  /** Tells the cluster, by an event of the Node. */
  readonly tell: TellNode;
  /** What is there once the node is known. */
  readonly node: () => RunningNode | undefined;
}

export interface RunningNode {
  /** As it is at present. */
  readonly environment: NodeEnvironment;
  /** Why the node is still taken for what it was. */
  readonly environmentProblem: string | undefined;
  readonly ipam: Ipam;
  readonly network: NodePodNetwork;
  readonly peers: Peers;
  readonly services: Services;
  readonly proxy: NodeProxy;
}

export interface AgentHooks {
  readonly onCall?: CniServerOptions['onCall'];
  readonly events: NodeDatapathEvents;
  /** Takes times for `/metrics`. */
  readonly observe?: Observe;
  readonly onPodStage?: NonNullable<PodNetworkOptions['onStage']>;
  /** The API server cannot be followed for a resource. */
  readonly onSourceFailure?: (kind: string, error: SeineError) => void;
  readonly onDatabaseFailure?: (error: SeineError) => void;
  /** The bridge's connection was lost. */
  readonly onBridgeFailure?: (error: SeineError) => void;
}

/** Opens everything and starts nothing. @throws SeineError `REFUSED` if the machine lacks something, `INVALID_INPUT` */
export function createAgent(config: AgentConfig, hooks: AgentHooks, log: Log, signal: AbortSignal): Agent & { run(): Promise<void> } {
  selfTest();
  const readiness = new Readiness();
  readiness.obstruct('start', 'starting', 'the agent starts');
  const repairs = new RepairHistory();
  const events = notingDrift(hooks.events, repairs, () => plane.datapath);
  const plane = openDataPlane({ config, hooks: { ...hooks, events }, readiness, log }, signal);
  const sources = openKubeSources(config, {
    stateDir: join(config.stateDir, 'kube'),
    log,
    ...(hooks.onSourceFailure ? { onFailure: hooks.onSourceFailure } : {}),
  });
  const tell = tellNode(sources, config.nodeName);
  let node: RunningNode | undefined;
  const agent: Agent = {
    config,
    startedAt: new Date(),
    readiness,
    plane,
    sources,
    peers: peersFromNodes(sources.nodes.replica, config.nodeName),
    dataPath: new DataPathProbe(),
    repairs,
    repair: new RepairPause({ datapath: plane.datapath, log, tell, now: () => performance.now() }),
    warnings: new Map(),
    tell,
    pods: new NodePods({ replica: sources.pods.replica, fetch: (...pod) => fetchPod(sources.http, ...pod) }),
    node: () => node,
  };
  const start = async (): Promise<void> => startNode(agent, { hooks, log, signal, started: (running) => (node = running) });
  return {
    ...agent,
    run: async () => void (await Promise.all([runDataPlane(plane, config.hostGateway, signal), runKubeSources(sources, signal), start()])),
  };
}

/** The same events, and what was repaired is remembered with its owners. */
function notingDrift(events: NodeDatapathEvents, repairs: RepairHistory, datapath: () => DataPlane['datapath']): NodeDatapathEvents {
  return {
    ...events,
    drift: (part, keys) => {
      const desired: { ownersOf(key: string): readonly string[] } = datapath()[part];
      repairs.note(part, keys, (key) => desired.ownersOf(key));
      events.drift(part, keys);
    },
  };
}

/** News of the node itself, posted with its Node object; a node that the API server does not know has nobody to tell. */
function tellNode({ nodes, events }: KubeSources, name: string): TellNode {
  return (reason, message, type = 'Normal') => {
    const node = nodes.replica.get(name);
    const about = { apiVersion: 'v1', kind: 'Node', namespace: '', name, uid: node?.uid ?? '' };
    if (node) events.post({ type, reason, message, about, occasion: new Date().toISOString() });
  };
}
