import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { problemKinds } from '../../../api/problem.ts';
import { seineVersion } from '../../../api/version.ts';
import { within } from '../../../base/async/time-limit.ts';
import { deletionsFolder } from '../../../cni/deletions.ts';
import { tableName } from '../../../dataplane/pipeline/tables.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { type DatapathLoad, readDatapathLoad } from '../../../dataplane/targets/switch/datapath-load.ts';
import { parts } from '../../../dataplane/targets/target-options.ts';
import type { ReflectorStatus } from '../../../kubernetes/client/reflector/reflector-report.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import type { Ipam } from '../../../pods/ipam/ipam.ts';
import type { StandingPorts } from '../../../pods/network/pre-plugged-ports.ts';
import { type GuardDropsPort, readClearDrops, readGuardDrops } from '../../diagnose/entries/guard-drops.ts';
import type { WireGuardReader } from '../../diagnose/entries/wireguard-reader.ts';
import { ovsVersion } from '../../diagnose/versions.ts';
import { flowLogSamples } from '../../flow-log/flow-log-samples.ts';
import type { OpenedFlowLog } from '../../flow-log/open-flow-log.ts';
import { historySamples } from '../../history/history-samples.ts';
import type { Mesh } from '../../mesh/mesh.ts';
import type { NodeHealth } from '../problems/node-health.ts';
import { type PolicyFactsNode, type PolicyObjectsPort, policyFacts } from '../problems/policy-facts.ts';
import { type WarningsPort, warningsOf } from '../problems/warnings.ts';
import type { Sample, Scrape } from './exporter.ts';
import type { ProcessMetricName, ScrapedName } from './metric-rows.ts';
import { affinities, meteredRefusals, unknownTunnelPeers, unlearnedAssociations } from './ovs-samples.ts';
import type { AgentRecord } from './record.ts';
import { wireGuardSamples } from './wireguard-samples.ts';

const DATA_PATH_PATIENCE_MS = 1_000;

const one = (value: number): readonly Sample[] => [[{}, value]];
/** Results for denied packets that may be answered. */
const refusalResults = ['answered', 'limited', 'too_new', 'not_denied', 'not_opening'] as const;
const yes = (value: boolean): number => (value ? 1 : 0);

/** Metrics of pods, Services and the node itself. */
interface NodeMetricsPort extends WarningsPort, Pick<PolicyObjectsPort, 'suspensions' | 'operatorOverrides'> {
  readonly config: { readonly stateDir: string };
  readonly readiness: { state(): { readonly state: string } };
  readonly repair: { readonly secondsLeft: number };
  readonly responder: { readonly counters: { readonly answered: number; readonly suppressed: number } };
  readonly halfOpen: { readonly counters: { readonly forgotten: number; readonly suppressed: number } };
  readonly hop: { readonly counters: { readonly answered: number; readonly suppressed: number } };
  readonly sources: {
    readonly nodes: { readonly replica: { readonly size: number } };
    readonly networkPolicies: {
      readonly replica: { readonly size: number; entries(): Iterable<readonly [string, { readonly faults?: readonly string[] }]> };
    };
    readonly clusterNetworkPolicies?: {
      readonly replica: { readonly size: number; entries(): Iterable<readonly [string, { readonly faults?: readonly string[] }]> };
    };
  };
  readonly node: () => (ServedNode & ReturnType<WarningsPort['node']>) | undefined;
}

/** Node, once it is known. */
interface ServedNode extends PolicyFactsNode {
  readonly refusals: { readonly counters: Readonly<Record<(typeof refusalResults)[number], number>> };
  readonly denied: { readonly log: { readonly counters: Readonly<Record<'lines' | 'repeated' | 'suppressed' | 'metered', number>> } };
  readonly flowLog: Pick<OpenedFlowLog, 'running'>;
  readonly ipam: Pick<Ipam, 'failure' | 'usage'>;
  readonly network: { readonly count: number };
  readonly standing: Pick<StandingPorts, 'counts' | 'fallbacks'>;
  readonly orphanedLeases: { readonly released: number; readonly kept: readonly unknown[] };
  readonly peers: {
    readonly objections: { readonly size: number };
    modeCounts(): readonly { readonly mode: string; readonly family: string; readonly peers: number }[];
  };
  readonly services: { readonly count: number; readonly objections: { readonly size: number } };
  readonly proxy: { readonly cleaner: { readonly counters: Readonly<Record<'bridge' | 'host' | 'failures' | 'merged', number>> } };
}

/** Metrics of the connections to Open vSwitch. */
interface ConnectionMetricsPort {
  readonly database: {
    readonly isSynced: boolean;
    readonly counters: { readonly syncs: number; readonly transactions: number };
  };
  readonly openflow: OpenFlowConnection;
  readonly packets: { readonly connection: Pick<OpenFlowConnection, 'isUp' | 'counters'> };
}

interface DatapathMetricsPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev'; readonly ovsRunDir: string };
}

type FirewallMetricsPort = GuardDropsPort;

interface PartMetricsPort {
  readonly nodeState: NodeState;
}

interface SourceMetricsPort {
  readonly sourceStatuses: () => readonly ReflectorStatus[];
}

interface WireGuardMetricsPort {
  readonly wireGuard: Pick<WireGuardReader, 'peers' | 'bytes'>;
}

interface MeshMetricsPort {
  readonly mesh: Pick<Mesh, 'states' | 'counters'>;
}

interface HistoryMetricsPort {
  readonly history: Parameters<typeof historySamples>[0];
}

export type ScrapePort = NodeMetricsPort &
  HistoryMetricsPort &
  MeshMetricsPort &
  ConnectionMetricsPort &
  DatapathMetricsPort &
  FirewallMetricsPort &
  PartMetricsPort &
  WireGuardMetricsPort &
  SourceMetricsPort;

/** Verdicts of policies, in packets. */
export interface PolicyPacketsSamples {
  readonly verdicts: readonly Sample[];
  readonly rules: readonly Sample[];
  readonly rulesLeftOut: number;
  /** Packets that ended on the bridge, by the name of the drop. */
  readonly drops: readonly Sample[];
}

interface ScrapeSources {
  readonly agent: ScrapePort;
  /** Answers soon, with earlier data if OVS is slow. */
  readonly policyPackets: { read(signal: AbortSignal): Promise<PolicyPacketsSamples> };
  readonly record: AgentRecord;
  readonly health: Pick<NodeHealth, 'report'>;
}

/** Reads all values from the agent for `/metrics`. */
export async function scrapeAgent({ agent, record, health, policyPackets }: ScrapeSources, signal: AbortSignal): Promise<Scrape> {
  const unknownPeers = await unknownTunnelPeers(agent.openflow, signal);
  const unlearned = await unlearnedAssociations(agent.openflow, signal);
  const { verdicts, rules, rulesLeftOut, drops } = await policyPackets.read(signal);
  return {
    ...ofNode(agent),
    info: await versions(agent, signal),
    ...ofConnections(agent),
    ...ofParts(agent, record),
    ...ofSources(agent, record),
    ...ofHealth(health.report()),
    cni_calls_total: record.samples('cni_calls_total'),
    ...(await dataPathLoad(agent, signal)),
    unknown_tunnel_peer_packets: unknownPeers,
    peer_modes: (agent.node()?.peers.modeCounts() ?? []).map(({ mode, family, peers }): Sample => [{ mode, family }, peers]),
    mesh_peers: Object.entries(agent.mesh.states()).map(([state, peers]): Sample => [{ state }, peers]),
    mesh_lost_total: one(agent.mesh.counters.lost),
    ...(await historySamples(agent.history)),
    plain_drops_total: [...readGuardDrops(agent)].map(([family, packets]): Sample => [{ family }, packets]),
    cleartext_drops_total: [...readClearDrops(agent)].map(([family, packets]): Sample => [{ family }, packets]),
    ...(await wireGuardSamples(agent.wireGuard, Date.now(), signal)),
    sctp_unlearned_packets_total: unlearned,
    ...(await affinities(agent.openflow, signal)),
    drops_total: drops,
    policy_refusals_total: [
      ...refusalResults.map((result): Sample => [{ result }, agent.node()?.refusals.counters[result] ?? 0]),
      ...(await meteredRefusals(agent.openflow, signal)),
    ],
    policy_packets_total: verdicts,
    policy_rule_packets_total: rules,
    policy_rule_packets_left_out: one(rulesLeftOut),
  };
}

function ofNode(agent: NodeMetricsPort) {
  const node = agent.node();
  const { answered, suppressed } = agent.responder.counters;
  const halfOpen = agent.halfOpen.counters;
  return {
    ready: one(yes(agent.readiness.state().state === 'ready')),
    repair_paused_seconds: one(agent.repair.secondsLeft),
    node_warnings: one(warningsOf(agent).length),
    ipam_journal_failed: one(yes(node?.ipam.failure !== undefined)),
    recorded_deletions: one(recordedDeletions(agent)),
    ip_addresses: (node?.ipam.usage() ?? []).flatMap(({ cidr, size, allocated, quarantined }): Sample[] => [
      [{ cidr, state: 'allocated' }, allocated],
      [{ cidr, state: 'quarantined' }, quarantined],
      [{ cidr, state: 'free' }, size - allocated - quarantined],
    ]),
    standing_ports: Object.entries(node?.standing.counts ?? {}).map(([state, count]): Sample => [{ state }, count]),
    standing_port_fallbacks_total: [...(node?.standing.fallbacks ?? [])].map(([reason, count]): Sample => [{ reason }, count]),
    local_pod_count: one(node?.network.count ?? 0),
    orphaned_pods: one(node?.orphanedLeases.kept.length ?? 0),
    orphaned_pods_released_total: one(node?.orphanedLeases.released ?? 0),
    peer_count: one(Math.max(0, agent.sources.nodes.replica.size - 1)),
    service_count: one(node?.services.count ?? 0),
    ...ofPolicies(agent),
    rejected_objects: [
      [{ kind: 'Node' }, node?.peers.objections.size ?? 0],
      [{ kind: 'Service' }, node?.services.objections.size ?? 0],
    ] satisfies Sample[],
    service_stale_connections_total: (['bridge', 'host', 'failures', 'merged'] as const).map(
      (where): Sample => [{ where }, node?.proxy.cleaner.counters[where] ?? 0],
    ),
    service_rejects_total: [
      [{ outcome: 'answered' }, answered],
      [{ outcome: 'suppressed' }, suppressed],
    ] satisfies Sample[],
    half_open_connections_total: [
      [{ outcome: 'forgotten' }, halfOpen.forgotten],
      [{ outcome: 'suppressed' }, halfOpen.suppressed],
    ] satisfies Sample[],
    time_exceeded_total: [
      [{ outcome: 'answered' }, agent.hop.counters.answered],
      [{ outcome: 'suppressed' }, agent.hop.counters.suppressed],
    ] satisfies Sample[],
  };
}

function ofPolicies(agent: NodeMetricsPort) {
  const { mode, objects, isolatedPods = 0, closedPods = [], suspensions = [] } = policyFacts(agent, agent.node());
  return {
    networkpolicy_count: one(objects),
    policy_isolated_pods: one(isolatedPods),
    policy_closed_pods: one(closedPods.length),
    policy_suspensions: one(suspensions.length),
    policy_mode: (['enforce', 'audit', 'off'] as const).map((each): Sample => [{ mode: each }, yes(mode === each)]),
    policy_faulty_count: one(faultyPolicies(agent)),
    ...flowLogSamples(agent.node()?.flowLog.running()),
    policy_log_packets_total: (['lines', 'repeated', 'suppressed', 'metered'] as const).map(
      (outcome): Sample => [{ outcome }, agent.node()?.denied.log.counters[outcome] ?? 0],
    ),
  };
}

function faultyPolicies({ sources }: NodeMetricsPort): number {
  let faulty = 0;
  for (const source of [sources.networkPolicies, sources.clusterNetworkPolicies])
    for (const [, { faults }] of source?.replica.entries() ?? []) if (faults !== undefined) faulty++;
  return faulty;
}

/** Counts the files of a folder that is usually empty. */
function recordedDeletions({ config }: NodeMetricsPort): number {
  try {
    return readdirSync(join(config.stateDir, deletionsFolder)).length;
  } catch {
    return 0; // no plugin has ever recorded one
  }
}

async function versions(
  { openflow, config }: Pick<ConnectionMetricsPort, 'openflow'> & DatapathMetricsPort,
  signal: AbortSignal,
): Promise<readonly Sample[]> {
  const ovs = (await ovsVersion(openflow, signal)) ?? 'unknown';
  return [[{ seine: seineVersion, node: process.version, ovs, data_path: config.ovsDatapathType }, 1]];
}

function ofConnections({ database, openflow, packets }: ConnectionMetricsPort) {
  const connections = [
    [{ connection: 'flows' }, openflow],
    [{ connection: 'packets' }, packets.connection],
  ] as const;
  const { flowMods, groupMods, meterMods, bundles, bundlesRefused } = openflow.counters;
  return {
    ovsdb_connected: one(yes(database.isSynced)),
    ovsdb_connects_total: one(database.counters.syncs),
    ovsdb_transactions_total: one(database.counters.transactions),
    openflow_connected: connections.map(([labels, { isUp }]): Sample => [labels, yes(isUp)]),
    openflow_connects_total: connections.map(([labels, { counters }]): Sample => [labels, counters.connects]),
    ovs_flow_ops_count: [
      [{ kind: 'flow' }, flowMods],
      [{ kind: 'group' }, groupMods],
      [{ kind: 'meter' }, meterMods],
    ] satisfies Sample[],
    ovs_bundles_total: one(bundles),
    ovs_flow_ops_error_count: one(bundlesRefused),
  };
}

function ofParts({ nodeState: datapath }: PartMetricsPort, record: AgentRecord) {
  const each = (value: (part: (typeof parts)[number]) => number): Sample[] => parts.map((part) => [{ part }, value(part)]);
  const counted = (name: ScrapedName): Sample[] => each((part) => record.sumOf(name, { part }));
  return {
    ovs_total_flow_count: one(datapath.reconcilers.bridge.actual()?.size ?? 0),
    ovs_flow_count: flowsByTable(datapath.bridge.counts),
    reconcile_rounds_total: counted('reconcile_rounds_total'),
    reconcile_entries_total: record.samples('reconcile_entries_total'),
    reconcile_failures_total: counted('reconcile_failures_total'),
    firewall_replacements_total: record.samples('firewall_replacements_total'),
    drift_entries_total: counted('drift_entries_total'),
    desired_entries: each((part) => datapath[part].size),
    reconcile_age_seconds: parts.flatMap((part): Sample[] => {
      const { ageMs } = datapath.reconcilers[part];
      return ageMs === undefined ? [] : [[{ part }, ageMs / 1_000]];
    }),
    unrealized_revisions: each((part) => Math.max(0, datapath[part].revision - datapath.reconcilers[part].realizedRevision)),
    refused_owners: each((part) => datapath.reconcilers[part].failures().length),
    contested_entries: each((part) => datapath.reconcilers[part].contested().size),
  };
}

function ofHealth({ problems, healthChecks }: ReturnType<NodeHealth['report']>) {
  const each = (value: (check: (typeof healthChecks)[number]) => number): Sample[] =>
    healthChecks.map((check) => [{ check: check.name }, value(check)]);
  return {
    problems: Object.keys(problemKinds).map((kind): Sample => [{ kind }, problems.filter((problem) => problem.kind === kind).length]),
    health_check_age_seconds: each(({ ageSeconds }) => ageSeconds ?? performance.now() / 1_000),
    health_check_deadline_seconds: each(({ roundSeconds }) => roundSeconds),
    health_check_duration_seconds: healthChecks.flatMap(({ name, tookMs }): Sample[] =>
      tookMs === null ? [] : [[{ check: name }, tookMs / 1_000]],
    ),
    health_check_repairs_total: healthChecks.flatMap(({ name, repaired }): Sample[] =>
      repaired === undefined ? [] : [[{ check: name }, repaired]],
    ),
  };
}

function flowsByTable(counts: ReadonlyMap<number, number>): Sample[] {
  return [...counts].toSorted(([a], [b]) => a - b).map(([id, count]) => [{ table: tableName(id) ?? String(id) }, count]);
}

function ofSources({ sourceStatuses }: SourceMetricsPort, record: AgentRecord) {
  const all = sourceStatuses();
  const each = (value: (status: (typeof all)[number]) => number): Sample[] => all.map((status) => [{ kind: status.kind }, value(status)]);
  return {
    source_synced: each(({ synced }) => yes(synced)),
    source_up_to_date: each(({ state }) => yes(state === 'in step')),
    source_objects: each(({ objects }) => objects),
    source_held: each(({ held }) => yes(held !== undefined)),
    source_watch_age_seconds: each(({ watchAgeMs = 0 }) => watchAgeMs / 1_000),
    source_silence_seconds: all.flatMap(({ kind, silenceMs }): Sample[] =>
      silenceMs === undefined ? [] : [[{ kind }, silenceMs / 1_000]],
    ),
    source_failures_total: each(({ kind }) => record.sumOf('source_failures_total', { kind })),
  };
}

/** Values that this data path does not report, or cannot report now, have no sample. */
async function dataPathLoad({ config }: DatapathMetricsPort, signal: AbortSignal) {
  const patience = within(signal, DATA_PATH_PATIENCE_MS);
  // Other metrics report whether OVS is connected.
  const load = await readDatapathLoad(config.ovsDatapathType, config.ovsRunDir, patience).catch((): DatapathLoad => ({ connections: [] }));
  const known = (value: number | undefined): readonly Sample[] =>
    value === undefined ? [] : [[{ data_path: config.ovsDatapathType }, value]];
  return {
    conntrack_entries: load.connections.map(({ table, entries }): Sample => [{ table }, entries]),
    conntrack_limit: load.connections.map(({ table, limit }): Sample => [{ table }, limit]),
    datapath_hits_total: known(load.hits),
    datapath_upcalls_missed_total: known(load.misses),
    datapath_upcalls_lost_total: known(load.lost),
    datapath_fragments_lost_total: known(load.lostFragments),
    datapath_megaflows: known(load.megaflows),
    datapath_masks: known(load.masks),
  };
}

/** Standard metrics of a process. */
export function scrapeProcess(): Readonly<Record<ProcessMetricName, readonly Sample[]>> {
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  const { rss, heapUsed } = process.memoryUsage();
  return {
    process_cpu_seconds_total: one((userCPUTime + systemCPUTime) / 1e6),
    process_resident_memory_bytes: one(rss),
    process_open_fds: one(readdirSync('/proc/self/fd').length - 1),
    process_start_time_seconds: one(Math.round((Date.now() - process.uptime() * 1_000) / 1_000)),
    nodejs_heap_size_used_bytes: one(heapUsed),
  };
}
