import { seineVersion } from '../../api/version.ts';
import { idle } from '../../base/async/pause.ts';
import type { Log } from '../../base/log/log.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { AgentEvents } from '../../operations/admin/observability.ts';
import {
  ConnectionEvents,
  noteCall,
  noteNodeEvent,
  noteStage,
  ProblemRecord,
  recordedNodeState,
  SourceEvents,
} from '../../operations/history/agent-events.ts';
import { DeniedBursts } from '../../operations/history/denied-bursts.ts';
import { History, historyFolder } from '../../operations/history/history.ts';
import { InputsRecord, type InputsRecordOptions } from '../../operations/history/inputs-record.ts';
import { NodeWatch } from '../../operations/history/node-watch.ts';
import { ObjectEvents } from '../../operations/history/object-events.ts';
import type { openDeniedLog } from '../../policy/denied-log/open-denied-log.ts';
import type { AgentConfig } from '../config/agent-config.ts';
import type { KubeSources } from '../kube-sources.ts';
import type { StartedNode } from '../node-start.ts';

/** Interval between comparisons of values without events (ms). */
const COMPARE_EVERY_MS = 1_000;

/** Parts of the agent that are compared each second. */
interface ComparedParts {
  readonly readiness: { state(): { readonly state: string; readonly reason?: string } };
  /** Undefined until the node is known. */
  readonly started: () => StartedNode | undefined;
}

type PostNodeEvent = (reason: string, message: string, type?: 'Normal' | 'Warning') => void;
type DeniedLine = NonNullable<Parameters<typeof openDeniedLog>[0]['written']>;

/** Records what happens in an agent: connects its parts to the history. */
export class AgentRecording {
  readonly history: History;
  readonly connections: ConnectionEvents;
  readonly sources: SourceEvents;
  /** Records problems that begin and end. */
  readonly problems: ProblemRecord;
  readonly #node: string;
  readonly #bursts: DeniedBursts;

  constructor({ nodeName, stateDir, history: { size } }: AgentConfig, log: Log) {
    const clocks = { now: () => performance.now(), wallMs: () => Date.now() };
    const options = { folder: historyFolder(stateDir), bytesMax: size, node: nodeName, version: seineVersion, log };
    this.history = new History({ ...options, ...clocks });
    this.connections = new ConnectionEvents(this.history);
    this.sources = new SourceEvents(this.history);
    this.problems = new ProblemRecord(this.history, nodeName);
    this.#bursts = new DeniedBursts(this.history);
    this.#node = nodeName;
    this.history.note('agent.started', [`node/${nodeName}`], { version: seineVersion, pid: process.pid });
  }

  /** Returns the same hooks, and records calls, stages and connections. */
  hooks(then: AgentEvents): AgentEvents {
    const { history, connections } = this;
    return {
      ...then,
      onCall: (call) => {
        noteCall(history, call);
        then.onCall(call);
      },
      onPodStage: (stage, tookMs, owner) => {
        noteStage(history, stage, tookMs, owner);
        then.onPodStage(stage, tookMs, owner);
      },
      onDatabaseFailure: (error) => {
        connections.failed('ovsdb', error);
        then.onDatabaseFailure(error);
      },
      onBridgeFailure: (error) => {
        connections.failed('bridge', error);
        then.onBridgeFailure(error);
      },
    };
  }

  /** Returns the same events of the node's targets, and records them. */
  nodeState(then: AgentEvents['events'], nodeState: () => NodeState): AgentEvents['events'] {
    return recordedNodeState(then, this.history, (part, key) => {
      const desired: { ownersOf(key: string): readonly string[] } = nodeState()[part];
      return desired.ownersOf(key);
    });
  }

  /** Records each change of an object that the API server sends. */
  followObjects(sources: KubeSources): void {
    const objects = new ObjectEvents(this.history);
    const { nodes, services, endpointSlices, networkPolicies, clusterNetworkPolicies, namespaces, policyPods, pods, liveSettings } =
      sources;
    nodes.observe(objects.of('Node'));
    services.observe(objects.of('Service'));
    endpointSlices.observe(objects.of('EndpointSlice'));
    networkPolicies.observe(objects.of('NetworkPolicy'));
    clusterNetworkPolicies.observe(objects.of('ClusterNetworkPolicy'));
    namespaces.observe(objects.of('Namespace'));
    policyPods.observe(objects.of('PolicyPod'));
    pods.observe(objects.of('Pod'));
    liveSettings.observe(objects.of('ConfigMap'));
  }

  /** Returns a poster of Events about this node that also records them. */
  nodeEvents(post: PostNodeEvent): PostNodeEvent {
    return (reason, message, type) => {
      noteNodeEvent(this.history, this.#node, reason, message);
      post(reason, message, type);
    };
  }

  /** Receives each line of the log of denied packets. */
  readonly denied: DeniedLine = (pod, denial, packets) =>
    this.#bursts.note(`${pod.namespace}/${pod.name}`, denial, packets, performance.now());

  /** Records the inputs of compilers until the signal is aborted. Called once the desired state is complete. */
  recordInputs(port: InputsRecordOptions['port'], log: Log, signal: AbortSignal): void {
    const clocks = { now: () => performance.now(), wallMs: () => Date.now() };
    void new InputsRecord({ port, history: this.history, log, ...clocks }).run((ms) => idle(ms, signal), signal);
  }

  /** Compares each second until the signal is aborted. */
  watch({ readiness, started }: ComparedParts, signal: AbortSignal): void {
    const watched = new NodeWatch(this.history, this.#node);
    const compare = (): void => {
      watched.compare({ readiness: readiness.state(), pods: started()?.policy.pods() });
      this.#bursts.sweep(performance.now());
    };
    const timer = setInterval(compare, COMPARE_EVERY_MS).unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }
}
