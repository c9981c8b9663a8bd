import { join } from 'node:path';
import { HealthChecks } from '../api/health/health-checks.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import type { Log } from '../base/log/log.ts';
import type { OperatorOverrides } from '../dataplane/targets/bridge/operator-overrides.ts';
import { BridgeLosses } from '../dataplane/targets/bridge-losses.ts';
import type { LinksTarget } from '../dataplane/targets/links/links-target.ts';
import type { NodeState } from '../dataplane/targets/node-state.ts';
import { PortWatch } from '../dataplane/targets/switch/port-watch.ts';
import { StaleMegaflows } from '../dataplane/targets/switch/stale-megaflows.ts';
import { SwitchRetry } from '../dataplane/targets/switch/switch-retry.ts';
import type { NodeStateEvents } from '../dataplane/targets/target-options.ts';
import { CniFiles } from '../install/cni-files-check.ts';
import { peersFromNodes } from '../kubernetes/resources/peer-source.ts';
import { fetchPod } from '../kubernetes/resources/pod.ts';
import { selfTest } from '../netlink/self-test.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import { watchContestedSettings } from '../nodes/local/contested-settings.ts';
import { Readiness } from '../nodes/local/readiness.ts';
import { RouteConflicts } from '../nodes/local/route-conflicts.ts';
import { findDetours } from '../nodes/modes/route-detours.ts';
import { TimeExceededResponder } from '../nodes/packet-in/time-exceeded.ts';
import type { AgentEvents } from '../operations/admin/observability.ts';
import { RepairHistory } from '../operations/admin/repair-history.ts';
import { RepairPause } from '../operations/admin/repair-pause.ts';
import { DatapathProbe } from '../operations/diagnose/datapath-capabilities.ts';
import { affinityCheck } from '../operations/diagnose/entries/affinity-check.ts';
import { associationCheck } from '../operations/diagnose/entries/association-check.ts';
import { readClearDrops } from '../operations/diagnose/entries/guard-drops.ts';
import { NodeReader } from '../operations/diagnose/entries/node-reader.ts';
import { watchForeignFirewall } from '../operations/diagnose/firewall/firewall-watch.ts';
import { ovsVersion } from '../operations/diagnose/versions.ts';
import { recordedPair } from '../operations/flow-log/recorded-pair.ts';
import { openTraceCells } from '../operations/trace/background-cells.ts';
import { PacketProbes } from '../operations/trace/packet-probes.ts';
import type { TraceCellsPort } from '../operations/trace/trace-cells.ts';
import { journalCheck } from '../pods/ipam/journal-check.ts';
import { journalIn } from '../pods/ipam/journal-store.ts';
import { NodePods } from '../pods/network/node-pods.ts';
import { HalfOpenConnections } from '../services/packet-in/half-open.ts';
import { NoEndpointResponder, type UnservedPortCheck } from '../services/packet-in/no-endpoint.ts';
import { UntranslatedPackets } from '../services/packet-in/untranslated.ts';
import { adminPorts } from './admin-ports.ts';
import type { AgentConfig } from './config/agent-config.ts';
import type { AgentRecording } from './history/agent-recording.ts';
import { type KubeSources, openKubeSources, runKubeSources, warnOfPodNetworks, warnOfWatchedPods } from './kube-sources.ts';
import { leaseCheck } from './lease-check.ts';
import { NodeChanges } from './node-changes.ts';
import { type StartedNode, type StartHooks, startNode } from './node-start.ts';
import { debouncedRecheck, forgettingMegaflows, keepNode, type NodeStack, openNodeStack, openNodeState } from './node-state.ts';
import { openMesh } from './peers/mesh.ts';
import { peerModesCheck } from './peers/peer-modes-check.ts';
import { openPeerPaths, type PeerPathSelection } from './peers/peer-paths.ts';
import { wireGuardCheck } from './peers/wireguard-check.ts';
import { openSuspensions } from './policy.ts';
import { reportPolicyMode } from './policy-mode.ts';
import { detourCheck, routingCheck } from './routing-check.ts';
import { openSwitch, type SwitchConnections } from './switch-connections.ts';
import { keepTunnelNeighbours } from './tunnel-neighbours.ts';

/** Events of the agent, for metrics and status, and for the history. */
type AgentHooks = AgentEvents & { readonly recording: AgentRecording };

interface WiredAgent {
  /** Ports for `agent.sock` and the metrics. */
  readonly admin: ReturnType<typeof adminPorts>;
  /** Runs until the signal is aborted. @throws SeineError `INVARIANT` */
  run(): Promise<void>;
}

/**
 * Opens everything and starts nothing.
 *
 * @param ofConfig parts of the configuration file that are not in force, as sentences, and whether that is all of it
 * @throws SeineError `REFUSED` if the host lacks something, `INVALID_INPUT`
 */
export function createAgent(
  config: AgentConfig,
  { recording, ...observed }: AgentHooks,
  log: Log,
  signal: AbortSignal,
  ofConfig: ConfigState = { warnings: [], isFormer: false },
): WiredAgent {
  const hooks = recording.hooks(observed);
  selfTest();
  const base = openBase(config, ofConfig);
  const { readiness, rollOut, changes, repairs, stack, warnings } = base;
  const { ovs, nodeState, links, operatorOverrides, megaflows, retry } = openNode({ config, ...base, hooks, recording, log }, signal);
  let started: StartedNode | undefined;
  const packetIn = answerPackets(ovs, () => started, log);
  const { sources, peers, pods, postNodeEvent } = openCluster(config, { hooks, recording, warnings, log });
  const suspensions = openSuspensions(config, postNodeEvent, log);
  const repair = new RepairPause({ nodeState, log, postEvent: postNodeEvent, now: () => performance.now() });
  const checks = openChecks(config, log);
  const plane = { config, changes, ovs, stack, nodeState, readiness, sources, log };
  const paths = openPeerPaths({
    config,
    nodes: sources.nodes.replica,
    socket: stack.links.socket,
    encryption: () => started?.encryption.peers,
  });
  const companions = companionsOf({ ...plane, warnings, peers, paths, checks, postNodeEvent }, signal);
  const mesh = openMesh({
    ...{ config, peers, nodeState, started: () => started, events: recording.history },
    ...{ liveSettings: sources.liveSettings.replica, warnings },
    observe: (seconds) => hooks.observe('mesh_rtt_seconds', {}, seconds),
  });
  const startHooks: StartHooks = { ...hooks, started: (node) => (started = node), companions };
  const parts = {
    ...plane,
    links,
    ports: new PortWatch(ovs.database, signal),
    peerSource: peers,
    noEndpoint: packetIn.responder,
    probes: packetIn.probes,
    warnings,
    pods,
    suspensions,
    paths,
    written: recording.denied,
    confirmed: () => {
      rollOut.clear('sources');
      recording.history.note('agent.synced', [`node/${config.nodeName}`], {});
      recording.recordInputs(admin, log, signal);
    },
  };
  recording.watch({ readiness, started: () => started }, signal);
  const more = { ...packetIn, ...checks, postNodeEvent, warnings, repair, repairs, suspensions, operatorOverrides, recording, mesh };
  const admin = adminPorts({ config, readiness, rollOut, ovs, stack, nodeState, sources, peers, started: () => started, more });
  return {
    admin,
    run: async () =>
      void (await Promise.all([
        keepNode({ gateway: config.hostGateway, ovs, stack, nodeState, changes }, signal),
        runKubeSources(sources, signal),
        megaflows.run(signal),
        retry.run(signal),
        mesh.run(signal),
        startNode(parts, startHooks, signal),
      ])),
  };
}

/** Warnings of the configuration file, and whether the previous configuration is in force instead of it. */
interface ConfigState {
  readonly warnings: readonly string[];
  readonly isFormer: boolean;
}

/** State that all parts share, and the connections to the kernel. */
function openBase(config: AgentConfig, ofConfig: ConfigState) {
  const readiness = new Readiness();
  readiness.obstruct('start', 'starting', 'the agent starts');
  return {
    readiness,
    rollOut: rollOutReadiness(ofConfig),
    changes: new NodeChanges(),
    repairs: new RepairHistory(),
    stack: openNodeStack(config),
    warnings: new Map<string, readonly string[]>(ofConfig.warnings.length > 0 ? [['configuration', ofConfig.warnings]] : []),
  };
}

/** Subscribes to packets that the bridge sends to the agent, and answers them. */
function answerPackets({ packets }: SwitchConnections, started: () => StartedNode | undefined, log: Log) {
  new UntranslatedPackets(packets, log);
  const isUnservedPort: UnservedPortCheck = (destination) => started()?.proxy.clusterAddresses.isUnservedPort(destination) ?? false;
  const failed = (thrown: unknown) => log.debug('a probe was not forgotten', { cause: SeineError.from(thrown, 'probe').message });
  return {
    responder: new NoEndpointResponder({ packets, isUnservedPort, log }),
    halfOpen: new HalfOpenConnections(packets, log),
    probes: new PacketProbes({ packets, failed }),
    hop: new TimeExceededResponder({ packets, environment: () => started()?.live.current, log }),
  };
}

/** Objects of the cluster, and events about this node. */
function openCluster(
  config: AgentConfig,
  { hooks, recording, warnings, log }: Pick<NodeParts, 'hooks' | 'recording' | 'warnings' | 'log'>,
) {
  const onReport: AgentRecording['sources']['note'] = (kind, report) => recording.sources.note(kind, report);
  const sources = openKubeSources(config, { stateDir: join(config.stateDir, 'kube'), log, onFailure: hooks.onSourceFailure, onReport });
  recording.followObjects(sources);
  warnOfPodNetworks(sources.nodes.replica, config.nodeName, warnings);
  warnOfWatchedPods(sources.policyPods.replica, config.policy.directWatchPods, warnings);
  return {
    sources,
    peers: peersFromNodes(sources.nodes.replica, config.nodeName),
    pods: new NodePods({ replica: sources.pods.replica, fetch: (...pod) => fetchPod(sources.http, ...pod) }),
    postNodeEvent: recording.nodeEvents(nodeEventPoster(sources, config.nodeName)),
  };
}

function openChecks(config: AgentConfig, log: Log): CompanionParts['checks'] {
  return {
    dataPath: new DatapathProbe(),
    healthChecks: new HealthChecks({ log }),
    cni: new CniFiles({ folders: { bin: config.cniBinDir, conf: config.cniConfDir, state: config.stateDir } }),
  };
}

interface CompanionParts {
  readonly config: AgentConfig;
  readonly changes: NodeChanges;
  readonly ovs: SwitchConnections;
  readonly stack: NodeStack;
  readonly nodeState: NodeState;
  readonly readiness: Readiness;
  readonly warnings: Map<string, readonly string[]>;
  readonly sources: KubeSources;
  readonly peers: ReturnType<typeof peersFromNodes>;
  readonly paths: PeerPathSelection;
  readonly checks: { readonly healthChecks: HealthChecks; readonly cni: CniFiles; readonly dataPath: DatapathProbe };
  readonly postNodeEvent: ReturnType<typeof nodeEventPoster>;
  readonly log: Log;
}

/** Periodic checks and watches that run alongside a started node. */
function companionsOf(parts: CompanionParts, signal: AbortSignal): StartHooks['companions'] {
  const { config, changes, ovs, stack, nodeState, readiness, warnings, sources, peers, paths, checks, postNodeEvent, log } = parts;
  const { healthChecks, cni, dataPath } = checks;
  const held = () => nodeState.reconcilers.host.actual();
  const routeConflicts = new RouteConflicts({ socket: stack.links.socket, held });
  return ({ live, ipam, orphanedLeases, standing, hostPorts, proxy, peers: reached, encryption, flowLog }) => {
    const { openflow, database } = ovs;
    const { datapath: datapathChanged, foreignFirewall } = changes;
    const firewall = { config, openflow, host: stack.links, nftables: stack.nftables, readiness, foreignFirewall, warnings, postNodeEvent };
    const plane = { database, openflow, datapathChanged };
    reportPolicyMode({ config, live, nodes: sources.nodes.replica, settings: sources.liveSettings.replica, warnings, postNodeEvent, log });
    hostPorts.report((sentences) => (sentences.length > 0 ? warnings.set('host ports', sentences) : warnings.delete('host ports')));
    return [
      watchForeignFirewall(firewall, { live, log, signal }),
      standing.run(signal),
      watchContestedSettings({ nodeState, warnings, log }, signal),
      healthChecks.follow(leaseCheck(orphanedLeases), signal),
      healthChecks.follow(routingCheck(routeConflicts), signal),
      healthChecks.follow(
        detourCheck(() => findDetours({ open: () => NetlinkSocket.open(), held })),
        signal,
      ),
      healthChecks.follow(peerModesCheck({ peers: reached, modes: paths.modes }), signal),
      ...(config.trafficEncryptionMode === 'wireGuard' ? [healthChecks.follow(encryptionCheck(stack, encryption), signal)] : []),
      dataPath.follow({ dataPath: config.ovsDatapathType, plane, warnings }, log, signal),
      healthChecks.follow(associationCheck(openflow), signal),
      healthChecks.follow(affinityCheck(openflow, proxy.services), signal),
      healthChecks.follow(cni.healthCheck, signal),
      healthChecks.follow(journalCheck(ipam, journalIn(config.stateDir)), signal),
      keepTunnelNeighbours({ config, peers, live, log }, signal),
      healthChecks.follow(
        traceCellsOf(parts, { running: () => ({ ipam, environment: live.current, peers: reached }), recorded: pairsIn(flowLog) }),
        signal,
      ),
    ];
  };
}

function pairsIn(flowLog: StartedNode['flowLog']): NonNullable<TraceCellsPort['recorded']> {
  return (chance) => {
    const log = flowLog.running()?.flows;
    return log && recordedPair(log, chance);
  };
}

function traceCellsOf(
  { config, ovs, nodeState, sources, peers, warnings }: CompanionParts,
  node: Required<Pick<TraceCellsPort, 'running' | 'recorded'>>,
) {
  const reader = new NodeReader({ openflow: ovs.openflow, database: ovs.database, nodeState, turns: sources.turns });
  const port = { config, openflow: ovs.openflow, nodeState, reader, sources, peers, ...node };
  return openTraceCells({ port, settings: sources.liveSettings.replica, configuredMs: config.trace.background, warnings });
}

function encryptionCheck({ wireGuard, netfilter }: NodeStack, { peers }: StartedNode['encryption']): ReturnType<typeof wireGuardCheck> {
  return wireGuardCheck({
    read: (signal) => wireGuard.read(signal),
    nodeOf: (key) => peers.nodeOf(key),
    clearDrops: () => [...readClearDrops({ netfilter }).values()].reduce((sum, packets) => sum + packets, 0),
    now: () => Date.now(),
  });
}

/**
 * Conditions of a roll-out on each node, besides serving pods: an agent continues with its last knowledge and its previous configuration,
 * which is right for its node, but a reason not to replace the agent of the next node.
 */
function rollOutReadiness(ofConfig: ConfigState): Readiness {
  const rollOut = new Readiness();
  rollOut.obstruct('sources', 'starting', 'not all sources have been synced with the API server since the agent started');
  if (ofConfig.isFormer) rollOut.obstruct('configuration', 'starting', ofConfig.warnings.join('; '));
  return rollOut;
}

interface NodeParts {
  readonly config: AgentConfig;
  readonly stack: NodeStack;
  readonly changes: NodeChanges;
  readonly readiness: Readiness;
  readonly hooks: AgentEvents;
  readonly recording: AgentRecording;
  readonly repairs: RepairHistory;
  readonly warnings: Map<string, readonly string[]>;
  readonly log: Log;
}

interface OpenedNode {
  readonly ovs: SwitchConnections;
  readonly nodeState: NodeState;
  readonly links: LinksTarget;
  readonly operatorOverrides: OperatorOverrides;
  readonly megaflows: StaleMegaflows;
  readonly retry: SwitchRetry;
}

/** Each needs the other: reports of OVS make the state observe again, and the state writes over the connections to OVS. */
function openNode(parts: NodeParts, signal: AbortSignal): OpenedNode {
  const { config, stack, changes, readiness, hooks, recording, repairs, warnings, log } = parts;
  const { connections } = recording;
  const losses = new BridgeLosses({ readiness, desired: () => nodeState.bridge.counts });
  const ovs = openSwitch(
    {
      config,
      readiness,
      log,
      databaseSynced: connections.noting('ovsdb', () => nodeState.reconcilers.switch.invalidate()),
      databaseFailed: hooks.onDatabaseFailure,
      bridgeUp: connections.noting('bridge', () => {
        losses.connected();
        retry.bridgeUp();
        nodeState.reconcilers.bridge.invalidate();
        nodeState.reconcilers.settings.recheck(); // the contents of its taps depend on its version
        changes.datapath.ring();
      }),
      bridgeFailed: (cause) => {
        retry.bridgeAway();
        hooks.onBridgeFailure?.(cause);
      },
      bridgeChanged: debouncedRecheck(() => nodeState.reconcilers.bridge, signal),
      learned: { covers: (flow) => nodeState.learned.covers(flow) },
    },
    signal,
  );
  const retry = retryOf(parts, ovs, signal);
  const megaflows = megaflowsOf(parts, ovs);
  const podsChecked = (sentences: readonly string[]): void =>
    void (sentences.length > 0 ? warnings.set('pods', sentences) : warnings.delete('pods'));
  const recorded = recording.nodeState(hooks.events, () => nodeState);
  const noting = losses.follow(notingDrift(recorded, repairs, () => nodeState));
  // Both are for the userspace data path: the kernel's changes the affected megaflow itself, and does not use OVS's copy of the routes.
  const events = stack.routeChanges ? forgettingMegaflows(noting, megaflows, stack.routeChanges) : noting;
  const { nodeState, ...opened }: Pick<OpenedNode, 'nodeState' | 'links' | 'operatorOverrides'> = openNodeState(config, ovs, stack, {
    events,
    podsChecked,
    log,
  });
  return { ovs, nodeState, megaflows, retry, ...opened };
}

/** Makes OVS reopen failed interfaces. */
function retryOf({ config, log }: NodeParts, { database, lock }: SwitchConnections, signal: AbortSignal): SwitchRetry {
  const tried = (cause: string): void => log.info('requesting OVS to reopen failed interfaces', { cause });
  return new SwitchRetry({ database, bridge: config.ovsBridge, lock: lock.name, tried }, signal);
}

/** Discards megaflows that OVS made from earlier flows. */
function megaflowsOf({ config, log }: NodeParts, { openflow }: SwitchConnections): StaleMegaflows {
  return new StaleMegaflows({
    runDir: config.ovsRunDir,
    version: (until) => ovsVersion(openflow, until),
    forgotten: () => log.working('megaflows'),
    failed: ({ message }) => log.failing('megaflows', 'OVS may keep outdated megaflows', { cause: message }),
    now: () => performance.now(),
  });
}

/** Returns the same events, and records repairs with their owners. */
function notingDrift(events: NodeStateEvents, repairs: RepairHistory, nodeState: () => NodeState): NodeStateEvents {
  return {
    ...events,
    drift: (part, keys) => {
      const desired: { ownersOf(key: string): readonly string[] } = nodeState()[part];
      repairs.note(part, keys, (key) => desired.ownersOf(key));
      events.drift(part, keys);
    },
  };
}

/** Posts an event of this node's Node object; none while the API server does not have it. */
function nodeEventPoster({ nodes, events }: KubeSources, name: string) {
  return (reason: string, message: string, type: 'Normal' | 'Warning' = 'Normal'): void => {
    const node = nodes.replica.get(name);
    const about = { apiVersion: 'v1', kind: 'Node', namespace: '', name, uid: node?.uid ?? '' };
    if (node) events.post({ type, reason, message, about, occasion: new Date().toISOString() });
  };
}
