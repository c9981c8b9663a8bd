import type { RotationAnswer } from '../../api/wireguard.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { LogControl } from '../../base/log/log.ts';
import type { NodeEncryption } from '../../nodes/wireguard/node-encryption.ts';
import type { InputsPort } from '../compiler-inputs/current-inputs.ts';
import { type FlowLogPort, flowLogLines, flowSummary } from '../flow-log/flow-log-answers.ts';
import { type KnownConnectionPort, knownConnection } from '../flow-log/known-connection.ts';
import { listOpenConnections, type OpenConnectionsPort } from '../flow-log/list-open-connections.ts';
import { type RecordedInputsPort, recordedInputLines } from '../history/inputs-at.ts';
import { type TimelinePort, timelineLines } from '../history/read-timeline.ts';
import type { Mesh } from '../mesh/mesh.ts';
import { attemptedNode } from '../trace/connect-node.ts';
import { dropCounters, readDrops } from '../trace/drop-counters.ts';
import { type ProbePort, probedNode, seenProbe } from '../trace/probe-node.ts';
import { type TracePort, tracedNode } from '../trace/trace-node.ts';
import { type ApiAnswer, type ApiRoutes, json, linesAnswer, text } from './answer.ts';
import { type CheckRoutePort, check } from './check-route.ts';
import { type DeniedLogPort, deniedLog, setDeniedLog, wouldDeny } from './denied-log-routes.ts';
import { configuration, type LeasesPort, lastLines, leases, logLevel, setLogLevel } from './diagnostics.ts';
import { type PodExplanationPort, podExplanation } from './explain-pod-route.ts';
import { type ServiceExplanationPort, serviceExplanation } from './explain-service-route.ts';
import { inputs } from './inputs-view.ts';
import {
  differences,
  type EntryListPort,
  flows,
  groups,
  meters,
  type NodeListPort,
  nodes,
  owners,
  type PodListPort,
  pods,
  ports,
  routes,
  type ServiceListPort,
  services,
} from './lists.ts';
import type { Exporter } from './metrics/exporter.ts';
import { type ScrapePort, scrapeAgent, scrapeProcess } from './metrics/scrape.ts';
import type { CallersPort } from './metrics-by-tls.ts';
import { type PolicyCountersPort, policyCounters } from './policy-counters.ts';
import { type PolicyEvidencePort, policyEvidence } from './policy-evidence.ts';
import type { PolicyPackets, PolicyPacketsPort } from './policy-packets.ts';
import { onePolicy, type PolicyPort, podPolicy, policies, policyExplanation, tracedPolicy } from './policy-routes.ts';
import { pauseSecondsMax, type RepairPause } from './repair-pause.ts';
import { agentStatus, type StatusPort, type StatusSources } from './status-view.ts';
import { type SuspensionPort, suspensionActions, suspensions } from './suspension-routes.ts';
import { type ClusterObjectsPort, clusterObjectLines } from './views/cluster-objects.ts';

/** Ports of all handlers: only the agent's wiring combines them. */
export type AgentPorts = StatusPort &
  ScrapePort &
  EntryListPort &
  PodListPort &
  NodeListPort &
  ServiceListPort &
  PodExplanationPort &
  ServiceExplanationPort &
  PolicyPort &
  Omit<TracePort, 'policyOf' | 'connectionOf'> &
  ProbePort &
  PolicyEvidencePort &
  ClusterObjectsPort &
  PolicyCountersPort &
  PolicyPacketsPort &
  SuspensionPort &
  WireGuardPort &
  DeniedLogPort &
  FlowLogPort &
  OpenConnectionsPort &
  KnownConnectionPort &
  InputsPort &
  LeasesPort &
  TimelinePort &
  RecordedInputsPort &
  MeshPort &
  Omit<CheckRoutePort, 'health'> &
  CallersPort &
  RepairPort &
  RollOutPort;

interface MeshPort {
  readonly mesh: Pick<Mesh, 'settings' | 'counters' | 'states' | 'paths'>;
}

interface RollOutPort {
  /** Condition of a roll-out, besides serving pods. */
  readonly rollOut: PodExplanationPort['readiness'];
}

interface WireGuardPort {
  /** Undefined until the node is known. */
  readonly encryption: () => Pick<NodeEncryption, 'rotate' | 'publicKey'> | undefined;
}

interface RepairPort {
  readonly repair: Pick<RepairPause, 'secondsLeft' | 'pause' | 'resume'>;
}

interface RouteSources extends StatusSources {
  readonly agent: AgentPorts;
  readonly exporter: Exporter;
  readonly control: LogControl;
  readonly policyPackets: Pick<PolicyPackets, 'read'>;
}

/** Paths served over the network: none of them names pods. */
export function publicRoutes(sources: RouteSources): ApiRoutes {
  const { agent, exporter } = sources;
  return {
    '/livez': () => text('ok'),
    '/readyz': () => readyAnswer(agent.readiness),
    '/metrics': async (_, signal) => ({
      status: 200,
      contentType: exporter.contentType,
      body: await exporter.text({ ...scrapeProcess(), ...(await scrapeAgent(sources, signal)) }),
    }),
  };
}

function readyAnswer(readiness: PodExplanationPort['readiness']) {
  const state = readiness.state();
  return json(state, state.state === 'ready' ? 200 : 503);
}

/** Paths served to root on this node. Lists read OVS, kernel and nftables for each request. */
export function operatorRoutes(sources: RouteSources): ApiRoutes {
  const { agent } = sources;
  return {
    ...publicRoutes(sources),
    '/readyz/rollout': () => readyAnswer(agent.readiness.state().state === 'ready' ? agent.rollOut : agent.readiness),
    '/v1/status': async (_, signal) => json(await agentStatus(sources, signal)),
    '/v1/pods': (query, signal) => pods(agent, query, signal),
    '/v1/nodes': (query, signal) => nodes(agent, query, signal),
    '/v1/services': (query, signal) => services(agent, query, signal),
    '/v1/flows': (query, signal) => flows(agent, query, signal),
    '/v1/flow-log': (query, signal) => ({ status: 200, contentType: 'application/x-ndjson', body: flowLogLines(agent, query, signal) }),
    '/v1/flow-log/summary': async (query) => json(await flowSummary(agent, query)),
    '/v1/open-connections': async () => json(await listOpenConnections(agent)),
    '/v1/groups': (query, signal) => groups(agent, query, signal),
    '/v1/meters': (query, signal) => meters(agent, query, signal),
    '/v1/ports': (query, signal) => ports(agent, query, signal),
    '/v1/routes': (query, signal) => routes(agent, query, signal),
    '/v1/explain/service': (query, signal) => serviceExplanation(agent, query, signal),
    '/v1/explain/pod': (query, signal) => podExplanation(agent, query, signal),
    '/v1/trace': async (query, signal) =>
      json(
        await tracedNode(
          { ...agent, policyOf: (...ends) => tracedPolicy(agent, ...ends), connectionOf: (asked) => knownConnection(agent, asked) },
          query,
          signal,
        ),
      ),
    '/v1/probe': async (query) => json(await seenProbe(agent, query)),
    '/v1/drops': async (_, signal) => json({ items: dropCounters(await readDrops(agent.openflow, { services: true }, signal)) }),
    '/v1/policy/pod': (query) => podPolicy(agent, query),
    '/v1/policy/explain': (query, signal) => policyExplanation(agent, query, signal),
    '/v1/policy/policy': (query) => onePolicy(agent, query),
    '/v1/policy/policies': () => policies(agent),
    '/v1/policy/counters': (_, signal) => policyCounters(agent, signal),
    '/v1/policy/evidence': (_, signal) => policyEvidence(agent, signal),
    '/v1/objects': (_, signal) => linesAnswer(clusterObjectLines(agent, signal), agent.turns),
    '/v1/policy/suspensions': () => suspensions(agent),
    '/v1/policy/log': () => deniedLog(agent),
    '/v1/diff': (_, signal) => differences(agent, signal),
    '/v1/owners': () => owners(agent),
    '/v1/inputs': () => inputs(agent),
    '/v1/config': () => configuration(agent),
    '/v1/leases': () => leases(agent),
    '/v1/mesh': () =>
      json({ settings: agent.mesh.settings, counters: agent.mesh.counters, states: agent.mesh.states(), items: agent.mesh.paths() }),
    '/v1/timeline': (query, signal) => timeline(agent, query, signal),
    '/v1/history/inputs': async (query) => linesAnswer(await recordedInputLines(agent, query), agent.turns),
    '/v1/logs': () => lastLines(sources.control),
    '/v1/log-level': () => logLevel(sources.control),
  };
}

/** Events of this node; those that follow are sent at once. */
function timeline(agent: AgentPorts, query: URLSearchParams, signal: AbortSignal): ApiAnswer {
  const lines = timelineLines(agent, query, signal);
  if (query.get('follow') === null) return linesAnswer(lines, agent.turns);
  return { status: 200, contentType: 'application/x-ndjson', body: lineByLine(lines) };
}

async function* lineByLine(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`;
}

/** Changes that root on this node may make, all of them temporary; and tests that send packets. */
export function operatorActions({ agent, health, control }: Pick<RouteSources, 'agent' | 'health' | 'control'>): ApiRoutes {
  return {
    '/v1/log-level': (query) => setLogLevel(control, query),
    '/v1/policy/log': (query) => setDeniedLog(agent, query),
    '/v1/policy/would-deny': (query, signal) => wouldDeny(agent, query, signal),
    '/v1/probe': async (query) => json(await probedNode(agent, query)),
    '/v1/connect': async (query, signal) => json(await attemptedNode(agent, query, signal)),
    '/v1/check': (query, signal) => check({ ...agent, health }, query, signal),
    ...repairActions(agent),
    ...suspensionActions(agent),
    ...wireGuardActions(agent),
  };
}

/** Announces a new WireGuard key of this node. */
export function wireGuardActions({ encryption }: WireGuardPort): ApiRoutes {
  return {
    '/v1/wireguard/rotate': async () => {
      const node = encryption();
      if (node === undefined) throw new SeineError('UNAVAILABLE', 'the node is not known yet');
      const at = await node.rotate();
      return json({ publicKey: node.publicKey ?? '', changesAt: new Date(at).toISOString() } satisfies RotationAnswer);
    },
  };
}

export function repairActions({ repair }: RepairPort): ApiRoutes {
  return {
    '/v1/pause': (query) => {
      const seconds = Number(query.get('seconds'));
      if (!Number.isInteger(seconds) || seconds < 1 || seconds > pauseSecondsMax)
        throw new SeineError('INVALID_INPUT', `seconds: a whole number from 1 to ${pauseSecondsMax}`);
      repair.pause(seconds);
      return json({ pausedForSeconds: repair.secondsLeft });
    },
    '/v1/resume': () => {
      const wasPaused = repair.secondsLeft > 0;
      repair.resume('operator');
      return json({ wasPaused });
    },
  };
}
