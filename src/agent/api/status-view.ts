import type { AgentStatus, ConnectionStatus, Failure, PartStatus, SourceStatus } from '../../agent-api/status.ts';
import { seineVersion } from '../../agent-api/version.ts';
import { type Part, parts } from '../../datapath/node-datapath.ts';
import type { ReflectorStatus } from '../../kube/reflector.ts';
import type { Agent, RunningNode } from '../agent.ts';
import type { LoopLag } from '../metrics/loop-lag.ts';
import type { AgentRecord } from '../metrics/record.ts';
import { ovsVersion } from '../versions.ts';
import { warningsOf } from '../warnings.ts';
import { failure } from './compare.ts';

/** Of objects that make no sense, so many are named. */
const INVALID_NAMED_MAX = 10;
const REFUSED_NAMED_MAX = 20;
/** Of each kind. */
const OBJECTIONS_NAMED_MAX = 10;

export interface StatusSources {
  readonly agent: Agent;
  readonly record: AgentRecord;
  readonly lag: Pick<LoopLag, 'maxMs'>;
}

/** Everything an operator asks first. Costs little: no target is read for it. */
export async function agentStatus({ agent, record, lag }: StatusSources, signal: AbortSignal): Promise<AgentStatus> {
  const { config, plane, sources, readiness, repair } = agent;
  const node = agent.node();
  const journal = node?.ipam.failure;
  const usage = node?.ipam.usage() ?? [];
  return {
    node: config.nodeName,
    versions: { seine: seineVersion, node: process.version, ovs: (await ovsVersion(plane.openflow, signal)) ?? null },
    pid: process.pid,
    startedAt: agent.startedAt.toISOString(),
    // Clocks jump; this one does not.
    uptimeSeconds: Math.round(performance.now() / 1_000),
    readiness: readiness.state(),
    bridge: { name: config.ovsBridge, dataPath: config.ovsDatapathType },
    ...(agent.dataPath.abilities ? { dataPath: agent.dataPath.abilities } : {}),
    network: node ? networkOf(agent, node) : null,
    pods: { attached: node?.network.count ?? 0, pools: usage, ...(journal ? { journalError: failure(journal, undefined, 0) } : {}) },
    peers: [...agent.peers.peers()].length,
    services: node?.services.count ?? 0,
    proxy: { proxyAll: node?.proxy.mode.sentence ?? 'not known yet' },
    networkPolicy: { enforcement: 'not enforced', objects: sources.networkPolicies.replica.size },
    sources: [sources.nodes, sources.services, sources.endpointSlices, sources.networkPolicies, sources.pods].map(({ status }) =>
      sourceStatus(status, record),
    ),
    objections: objectionsOf(node),
    connections: connections(agent, record),
    parts: parts.map((part) => partStatus(part, agent, record)),
    eventLoop: { lagMsMax: Math.round(lag.maxMs * 10) / 10 },
    ...(repair.secondsLeft > 0 ? { repair: { pausedForSeconds: repair.secondsLeft } } : {}),
    warnings: warningsOf(agent),
  };
}

function networkOf({ config }: Agent, { environment }: RunningNode): AgentStatus['network'] {
  const texts = (values: readonly { readonly text: string }[]): string[] => values.map(({ text }) => text);
  const { gateway, tunnel } = environment;
  return {
    mode: config.trafficEncapMode,
    tunnel: tunnel.type,
    transport: texts(environment.transport),
    podCidrs: texts(environment.podCidrs),
    serviceCidrs: texts(environment.serviceCidrs),
    gateway: gateway.name,
    mtu: gateway.mtu,
    snat: !config.noSNAT,
  };
}

function objectionsOf(node: RunningNode | undefined): AgentStatus['objections'] {
  const all = node ? [node.peers.objections, node.services.objections] : [];
  const named = all.flatMap((objections) => objections.first(OBJECTIONS_NAMED_MAX));
  return { count: all.reduce((count, { size }) => count + size, 0), first: named };
}

function sourceStatus(
  { kind, synced, doing, objects, held, failures, lastError, invalid }: ReflectorStatus,
  record: AgentRecord,
): SourceStatus {
  const seen = record.lastOf(kind);
  const last = lastError && failure(lastError, seen?.atMs, performance.now());
  return {
    kind,
    synced,
    doing,
    objects,
    failures,
    invalid: [...invalid].slice(0, INVALID_NAMED_MAX).map(([name, { message }]) => ({ name, message })),
    ...(held ? { held } : {}),
    ...(last ? { lastError: last } : {}),
  };
}

function connections({ plane: { database, openflow, packets, responder, halfOpen } }: Agent, record: AgentRecord): ConnectionStatus[] {
  const { syncs, ...transactions } = database.counters;
  const { connects, ...sent } = openflow.counters;
  return [
    { name: 'ovsdb', up: database.isSynced, connects: syncs, counters: transactions, ...lastError(record, 'ovsdb') },
    { name: 'openflow', up: openflow.isUp, connects, counters: sent, ...lastError(record, 'openflow') },
    {
      name: 'packetIn',
      up: packets.connection.isUp,
      connects: packets.connection.counters.connects,
      counters: { ...responder.counters, forgotten: halfOpen.counters.forgotten, halfOpenSuppressed: halfOpen.counters.suppressed },
    },
  ];
}

function partStatus(part: Part, { plane: { datapath } }: Agent, record: AgentRecord): PartStatus {
  const reconciler = datapath.reconcilers[part];
  const nowMs = performance.now();
  return {
    part,
    wanted: datapath[part].size,
    held: reconciler.actual()?.size ?? null,
    revision: datapath[part].revision,
    realizedRevision: reconciler.realizedRevision,
    drift: record.driftOf(part),
    refused: reconciler
      .failures()
      .slice(0, REFUSED_NAMED_MAX)
      .map(({ owner, error, atMs }) => ({ owner, error: failure(error, atMs, nowMs) })),
    contested: reconciler.contested().size,
    ...(reconciler.lastError ? lastError(record, part) : {}),
  };
}

function lastError(record: AgentRecord, what: string): { readonly lastError?: Failure } {
  const seen = record.lastOf(what);
  return seen ? { lastError: failure(seen.error, seen.atMs, performance.now()) } : {};
}
