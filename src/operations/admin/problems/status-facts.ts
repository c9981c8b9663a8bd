import type { Failure } from '../../../api/failure.ts';
import type { AgentStatus, ConnectionStatus, PartStatus, SourceStatus } from '../../../api/status.ts';
import type { UnservedReasons } from '../../../base/log/unserved-reasons.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { parts, type TargetName } from '../../../dataplane/targets/target-options.ts';
import type { ReflectorStatus } from '../../../kubernetes/client/reflector/reflector-report.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import type { Ipam } from '../../../pods/ipam/ipam.ts';
import { failure } from '../../diagnose/entries/compare.ts';
import type { AgentRecord } from '../metrics/record.ts';
import type { StatusFacts } from './agent-problems.ts';
import { type PolicyFactsNode, type PolicyObjectsPort, policyFacts } from './policy-facts.ts';

/** Maximum number of invalid objects that are named. */
const INVALID_NAMED_MAX = 10;
const REFUSED_NAMED_MAX = 20;
/** Maximum number of each kind. */
const OBJECTIONS_NAMED_MAX = 10;

/** Node, once it is known. */
export interface FactsNode extends PolicyFactsNode {
  readonly ipam: Pick<Ipam, 'failure' | 'usage'>;
  readonly network: { readonly count: number };
  readonly peers: { readonly objections: UnservedCount };
  readonly services: { readonly objections: UnservedCount };
  readonly proxy: { readonly takenHealthCheckPorts: UnservedCount };
}

type UnservedCount = Pick<UnservedReasons, 'size' | 'first'>;

interface ConnectionFactsPort {
  readonly database: { readonly isSynced: boolean; readonly counters: { readonly syncs: number; readonly transactions: number } };
  readonly openflow: OpenFlowConnection;
  readonly packets: { readonly connection: Pick<OpenFlowConnection, 'isUp' | 'counters'> };
  readonly responder: { readonly counters: Readonly<Record<'answered' | 'suppressed', number>> };
  readonly halfOpen: { readonly counters: Readonly<Record<'forgotten' | 'suppressed', number>> };
}

interface PartFactsPort {
  readonly nodeState: NodeState;
}

export interface FactsPort extends ConnectionFactsPort, PartFactsPort, PolicyObjectsPort {
  readonly readiness: { state(): AgentStatus['readiness'] };
  readonly repair: { readonly secondsLeft: number };
  readonly sourceStatuses: () => readonly ReflectorStatus[];
  readonly node: () => FactsNode | undefined;
}

/** State of the agent and its node, without reading any target. */
export function statusFacts(agent: FactsPort, record: AgentRecord): StatusFacts {
  const node = agent.node();
  const journal = node?.ipam.failure;
  const { secondsLeft } = agent.repair;
  return {
    readiness: agent.readiness.state(),
    pods: {
      attached: node?.network.count ?? 0,
      pools: node?.ipam.usage() ?? [],
      ...(journal ? { journalError: failure(journal, undefined, 0) } : {}),
    },
    sources: agent.sourceStatuses().map((status) => sourceStatus(status, record)),
    objections: objectionsOf(node),
    networkPolicy: policyFacts(agent, node),
    connections: connections(agent, record),
    parts: parts.map((part) => partStatus(part, agent, record)),
    ...(secondsLeft > 0 ? { repair: { pausedForSeconds: secondsLeft } } : {}),
  };
}

function objectionsOf(node: FactsNode | undefined): AgentStatus['objections'] {
  const all = node ? [node.peers.objections, node.services.objections, node.proxy.takenHealthCheckPorts] : [];
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

function connections({ database, openflow, packets, responder, halfOpen }: ConnectionFactsPort, record: AgentRecord): ConnectionStatus[] {
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

function partStatus(part: TargetName, { nodeState: datapath }: PartFactsPort, record: AgentRecord): PartStatus {
  const reconciler = datapath.reconcilers[part];
  const nowMs = performance.now();
  const refused = reconciler.failures();
  const { behindMs } = reconciler;
  return {
    part,
    wanted: datapath[part].size,
    held: reconciler.actual()?.size ?? null,
    revision: datapath[part].revision,
    realizedRevision: reconciler.realizedRevision,
    drift: record.driftOf(part),
    refused: refused.slice(0, REFUSED_NAMED_MAX).map(({ owner, error, atMs }) => ({ owner, error: failure(error, atMs, nowMs) })),
    refusedCount: refused.length,
    repairing: reconciler.repairing,
    ...(behindMs === undefined ? {} : { behindSeconds: Math.floor(behindMs / 1_000) }),
    contested: reconciler.contested().size,
    ...(reconciler.lastError ? lastError(record, part) : {}),
  };
}

function lastError(record: AgentRecord, what: string): { readonly lastError?: Failure } {
  const seen = record.lastOf(what);
  return seen ? { lastError: failure(seen.error, seen.atMs, performance.now()) } : {};
}
