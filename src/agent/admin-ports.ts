import type { HealthChecks } from '../api/health/health-checks.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import type { NodeState } from '../dataplane/targets/node-state.ts';
import type { PeerSource } from '../kubernetes/resources/peer-source.ts';
import { presentTunnelPort } from '../nodes/local/node-desired-state.ts';
import type { Readiness } from '../nodes/local/readiness.ts';
import type { TimeExceededResponder } from '../nodes/packet-in/time-exceeded.ts';
import type { RepairHistory } from '../operations/admin/repair-history.ts';
import type { RepairPause } from '../operations/admin/repair-pause.ts';
import type { AgentPorts } from '../operations/admin/routes.ts';
import type { DatapathProbe } from '../operations/diagnose/datapath-capabilities.ts';
import { NodeReader } from '../operations/diagnose/entries/node-reader.ts';
import { WireGuardReader } from '../operations/diagnose/entries/wireguard-reader.ts';
import type { Mesh } from '../operations/mesh/mesh.ts';
import type { PacketProbes } from '../operations/trace/packet-probes.ts';
import type { HalfOpenConnections } from '../services/packet-in/half-open.ts';
import type { NoEndpointResponder } from '../services/packet-in/no-endpoint.ts';
import type { AgentConfig } from './config/agent-config.ts';
import { changedSwitches } from './config/feature-keys.ts';
import type { AgentRecording } from './history/agent-recording.ts';
import type { KubeSources } from './kube-sources.ts';
import type { StartedNode } from './node-start.ts';
import type { NodeStack } from './node-state.ts';
import type { SwitchConnections } from './switch-connections.ts';

/** Parts of the wiring that admin reads. */
interface AdminParts {
  readonly config: AgentConfig;
  readonly readiness: Readiness;
  readonly rollOut: Readiness;
  readonly ovs: SwitchConnections;
  readonly stack: NodeStack;
  readonly nodeState: NodeState;
  readonly sources: KubeSources;
  readonly peers: PeerSource;
  /** Undefined until the node is known. */
  readonly started: () => StartedNode | undefined;
  readonly more: {
    readonly responder: NoEndpointResponder;
    readonly halfOpen: HalfOpenConnections;
    readonly hop: TimeExceededResponder;
    readonly probes: PacketProbes;
    readonly repair: RepairPause;
    readonly repairs: RepairHistory;
    readonly suspensions: AgentPorts['suspensions'];
    readonly operatorOverrides: AgentPorts['operatorOverrides'];
    readonly dataPath: DatapathProbe;
    readonly healthChecks: HealthChecks;
    readonly cni: AgentPorts['cni'];
    readonly postNodeEvent: AgentPorts['postNodeEvent'];
    readonly recording: AgentRecording;
    readonly mesh: Mesh;
    /** Warnings about the node, as sentences, by the part of the agent that found them. */
    readonly warnings: ReadonlyMap<string, readonly string[]>;
  };
}

/** Ports of this agent for the API of `agent.sock`, the metrics and the checks. */
export function adminPorts(parts: AdminParts): AgentPorts & { readonly config: AgentConfig } {
  const { config, readiness, rollOut, ovs, stack, nodeState, sources, peers, started, more } = parts;
  const { database, openflow, packets } = ovs;
  const {
    http,
    turns,
    nodes,
    services,
    endpointSlices,
    networkPolicies,
    clusterNetworkPolicies,
    namespaces,
    policyPods,
    pods,
    liveSettings,
  } = sources;
  const node = () => nodeOf(started());
  return {
    ...more,
    history: more.recording.history,
    problemRecord: more.recording.problems,
    config,
    readiness,
    rollOut,
    startedAt: new Date(),
    changedSwitches: changedSwitches(config),
    database,
    openflow,
    packets,
    host: stack.links,
    nftables: stack.nftables,
    wireGuard: new WireGuardReader(stack.wireGuard),
    netfilter: stack.netfilter,
    nodeState,
    sources,
    peers,
    http,
    turns,
    reader: new NodeReader({ openflow, database, nodeState, turns }),
    sourceStatuses: () =>
      [nodes, services, endpointSlices, networkPolicies, clusterNetworkPolicies, namespaces, policyPods, pods, liveSettings].map(
        ({ status }) => status,
      ),
    tunnelPort: () => presentTunnelPort(config, started()?.live.current),
    node,
    running: () => node() ?? notStarted(readiness),
    held: () => heldOf(started()),
    encryption: () => started()?.encryption,
  };
}

/** Current state of the node, read at each call. */
function nodeOf(started: StartedNode | undefined) {
  if (!started) return undefined;
  const { live, ipam, network, policy, denied, refusals, flowLog, peers, proxy, orphanedLeases, standing } = started;
  const environment = { environment: live.current, environmentProblem: live.problem };
  return {
    ...environment,
    ipam,
    network,
    policy,
    denied,
    refusals,
    flowLog,
    peers,
    services: proxy.services,
    proxy,
    orphanedLeases,
    standing,
  };
}

/** Removals so large that they wait for a second check. */
function heldOf(started: StartedNode | undefined): readonly { readonly what: string; readonly count: number }[] {
  const held = [
    { what: 'remembered clients (session affinity)', count: started?.proxy.affinity.held ?? 0 },
    { what: 'endpoints whose tracked connections are stale', count: started?.proxy.startCleaner.held ?? 0 },
  ];
  return held.filter(({ count }) => count > 0);
}

/** @throws SeineError `UNAVAILABLE` with what is missing */
function notStarted(readiness: Readiness): never {
  const state = readiness.state();
  throw new SeineError('UNAVAILABLE', state.state === 'ready' ? 'the node is not known yet' : state.reason);
}
