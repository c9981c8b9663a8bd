import type { Failure } from '../agent-api/failure.ts';
import type { AgentStatus, ConnectionStatus, PartStatus, SourceStatus } from '../agent-api/status.ts';
import { seineVersion } from '../agent-api/version.ts';
import type { NodeEnvironment } from '../connectivity/environment.ts';
import { failure } from '../diagnose/entries/compare.ts';
import { ovsVersion } from '../diagnose/versions.ts';
import type { Ipam } from '../ipam/ipam.ts';
import type { ReflectorStatus } from '../kube/reflector-report.ts';
import type { UnservedReasons } from '../log/unserved-reasons.ts';
import type { OpenFlowConnection } from '../openflow/connection.ts';
import type { DatapathCapabilities } from '../reconcile/datapath-features.ts';
import { type NodeState, parts, type TargetName } from '../reconcile/node-state.ts';
import type { LoopLag } from './metrics/loop-lag.ts';
import type { AgentRecord } from './metrics/record.ts';
import { type WarningsPort, warningsOf } from './warnings.ts';

/** Of objects that make no sense, so many are named. */
const INVALID_NAMED_MAX = 10;
const REFUSED_NAMED_MAX = 20;
/** Of each kind. */
const OBJECTIONS_NAMED_MAX = 10;

interface NodeStatusPort {
  readonly config: {
    readonly nodeName: string;
    readonly ovsBridge: string;
    readonly ovsDatapathType: 'system' | 'netdev';
    readonly trafficEncapMode: 'encap';
    readonly noSNAT: boolean;
  };
  readonly startedAt: Date;
  readonly readiness: { state(): AgentStatus['readiness'] };
  readonly dataPath: { readonly capabilities: DatapathCapabilities | undefined };
  readonly repair: { readonly secondsLeft: number };
  readonly node: () => (StatusNode & ReturnType<WarningsPort['node']>) | undefined;
}

/** The node, once it is known. */
interface StatusNode {
  readonly environment: NodeEnvironment;
  readonly ipam: Pick<Ipam, 'failure' | 'usage'>;
  readonly network: { readonly count: number };
  readonly peers: { readonly objections: UnservedCount };
  readonly services: { readonly count: number; readonly objections: UnservedCount };
  readonly proxy: { readonly mode: { readonly sentence: string } };
}

type UnservedCount = Pick<UnservedReasons, 'size' | 'first'>;

interface SourceStatusPort {
  readonly peers: { peers(): Iterable<unknown> };
  readonly sources: { readonly networkPolicies: { readonly replica: { readonly size: number } } };
  readonly sourceStatuses: () => readonly ReflectorStatus[];
}

interface ConnectionStatusPort {
  readonly database: { readonly isSynced: boolean; readonly counters: { readonly syncs: number; readonly transactions: number } };
  readonly openflow: OpenFlowConnection;
  readonly packets: { readonly connection: Pick<OpenFlowConnection, 'isUp' | 'counters'> };
  readonly responder: { readonly counters: Readonly<Record<'answered' | 'suppressed', number>> };
  readonly halfOpen: { readonly counters: Readonly<Record<'forgotten' | 'suppressed', number>> };
}

interface PartStatusPort {
  readonly nodeState: NodeState;
}

export type StatusPort = NodeStatusPort & WarningsPort & SourceStatusPort & ConnectionStatusPort & PartStatusPort;

export interface StatusSources {
  readonly agent: StatusPort;
  readonly record: AgentRecord;
  readonly lag: Pick<LoopLag, 'maxMs'>;
}

/** What `seinectl status` shows. Costs little: no target is read for it. */
export async function agentStatus({ agent, record, lag }: StatusSources, signal: AbortSignal): Promise<AgentStatus> {
  const { config, openflow, sources, readiness, repair } = agent;
  const node = agent.node();
  const journal = node?.ipam.failure;
  const usage = node?.ipam.usage() ?? [];
  return {
    node: config.nodeName,
    versions: { seine: seineVersion, node: process.version, ovs: (await ovsVersion(openflow, signal)) ?? null },
    pid: process.pid,
    startedAt: agent.startedAt.toISOString(),
    // Clocks jump; this one does not.
    uptimeSeconds: Math.round(performance.now() / 1_000),
    readiness: readiness.state(),
    bridge: { name: config.ovsBridge, dataPath: config.ovsDatapathType },
    ...(agent.dataPath.capabilities ? { dataPath: agent.dataPath.capabilities } : {}),
    network: node ? networkOf(config, node.environment) : null,
    pods: { attached: node?.network.count ?? 0, pools: usage, ...(journal ? { journalError: failure(journal, undefined, 0) } : {}) },
    peers: [...agent.peers.peers()].length,
    services: node?.services.count ?? 0,
    proxy: { proxyAll: node?.proxy.mode.sentence ?? 'not known yet' },
    networkPolicy: { enforcement: 'not enforced', objects: sources.networkPolicies.replica.size },
    sources: agent.sourceStatuses().map((status) => sourceStatus(status, record)),
    objections: objectionsOf(node),
    connections: connections(agent, record),
    parts: parts.map((part) => partStatus(part, agent, record)),
    eventLoop: { lagMsMax: Math.round(lag.maxMs * 10) / 10 },
    ...(repair.secondsLeft > 0 ? { repair: { pausedForSeconds: repair.secondsLeft } } : {}),
    warnings: warningsOf(agent),
  };
}

function networkOf(config: NodeStatusPort['config'], environment: NodeEnvironment): AgentStatus['network'] {
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

function objectionsOf(node: StatusNode | undefined): AgentStatus['objections'] {
  const all = node ? [node.peers.objections, node.services.objections] : [];
  const named = all.flatMap((objections) => objections.first(OBJECTIONS_NAMED_MAX));
  return { count: all.reduce((count, { size }) => count + size, 0), first: named };
}

function sourceStatus(
  { kind, synced, state, doing, objects, held, failures, lastError, invalid }: ReflectorStatus,
  record: AgentRecord,
): SourceStatus {
  const seen = record.lastOf(kind);
  const last = lastError && failure(lastError, seen?.atMs, performance.now());
  return {
    kind,
    synced,
    state,
    doing,
    objects,
    failures,
    invalid: [...invalid].slice(0, INVALID_NAMED_MAX).map(([name, { message }]) => ({ name, message })),
    ...(held ? { held } : {}),
    ...(last ? { lastError: last } : {}),
  };
}

function connections({ database, openflow, packets, responder, halfOpen }: ConnectionStatusPort, record: AgentRecord): ConnectionStatus[] {
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

function partStatus(part: TargetName, { nodeState: datapath }: PartStatusPort, record: AgentRecord): PartStatus {
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
