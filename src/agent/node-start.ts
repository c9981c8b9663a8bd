import { within } from '../base/async/time-limit.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { familiesOf, type NodeEnvironment, ownCidrs } from '../dataplane/compile/environment.ts';
import { ofPorts } from '../dataplane/pipeline/well-known.ts';
import { AppliedFlows } from '../dataplane/targets/switch/applied-flows.ts';
import type { PeerSource } from '../kubernetes/resources/peer-source.ts';
import { getLink } from '../netlink/links.ts';
import { listAddresses } from '../netlink/routing/addresses.ts';
import { awaitEnvironment } from '../nodes/local/await-environment.ts';
import { watchEnvironment } from '../nodes/local/environment-watch.ts';
import { keepFlowRestore } from '../nodes/local/flow-restore.ts';
import { settingsInput, wantHostSettings } from '../nodes/local/host-settings.ts';
import type { LiveEnvironment } from '../nodes/local/live-environment.ts';
import { readLocalAddresses } from '../nodes/local/local-addresses.ts';
import { keepNetworkCondition } from '../nodes/local/network-condition.ts';
import { nodeOwner, podPoolsOf, wantNode, wantSwitch } from '../nodes/local/node-desired-state.ts';
import { readHostInterfaces } from '../nodes/local/node-environment.ts';
import { retryUntilAccepted } from '../nodes/local/retry-until-accepted.ts';
import type { ReservedRange } from '../nodes/peers/address-claims.ts';
import { PeerPodNetworks } from '../nodes/peers/peer-pod-networks.ts';
import { Peers } from '../nodes/peers/peers.ts';
import { followClusterPolicies, followNamespaces, followPolicies } from '../nodes/peers/policy-event.ts';
import { reservedRanges } from '../nodes/peers/reserved-ranges.ts';
import type { NodeEncryption } from '../nodes/wireguard/node-encryption.ts';
import { type OpenedFlowLog, openFlowLog } from '../operations/flow-log/open-flow-log.ts';
import type { HostPorts } from '../pods/host-ports/host-ports.ts';
import type { Ipam } from '../pods/ipam/ipam.ts';
import { assertReadableJournal, journalIn } from '../pods/ipam/journal-store.ts';
import { leasedNetworks } from '../pods/ipam/lease-networks.ts';
import type { OrphanedLeases } from '../pods/network/orphaned-leases.ts';
import type { PolicyController } from '../policy/controller/policy-controller.ts';
import type { Suspensions } from '../policy/controller/suspensions.ts';
import { type OpenedDeniedLog, openDeniedLog } from '../policy/denied-log/open-denied-log.ts';
import { PolicyRefusals } from '../policy/refusals/policy-refusals.ts';
import { type NodeServices, openServices, type ServePorts } from '../services/controller/open-services.ts';
import type { NoEndpointResponder } from '../services/packet-in/no-endpoint.ts';
import { type KubeSources, liveSettingsOf, whenInStep, whenSettingsKnown } from './kube-sources.ts';
import { openOrphanedLeases } from './lease-check.ts';
import { tuneMemory } from './memory-tuner.ts';
import type { NodeChanges } from './node-changes.ts';
import { keepEncryption, openEncryption, openOwnAnnotations } from './peers/encryption.ts';
import { keepPeerPaths, type PeerPathSelection } from './peers/peer-paths.ts';
import { type AttachedPods, keepGateway, openPods, type PodHooks, type PodParts, serveCni } from './pods.ts';
import { openPolicy } from './policy.ts';

/** Maximum time to wait for Services that are not stored on disk, before OVS may forward without them (ms). */
const KNOWLEDGE_PATIENCE_MS = 5_000;
/** Maximum time that the removal of unowned entries waits for nftables (ms). */
const MARKING_PATIENCE_MS = 5_000;
/** Interval between retries of changes that the node refused (ms). */
const REFUSED_RETRY_MS = 1_000;
/** Interval between checks of quarantined addresses, and between attempts to write a journal that could not be written (ms). */
const RECLAIM_EVERY_MS = 15_000;

/** Parts that exist before the node is known. */
interface StartParts extends Omit<PodParts, 'live' | 'policy'> {
  readonly changes: NodeChanges;
  readonly sources: KubeSources;
  readonly peerSource: PeerSource;
  readonly suspensions: Suspensions;
  readonly paths: PeerPathSelection;
  /** Called with each line of the log of denied packets. */
  readonly written: Parameters<typeof openDeniedLog>[0]['written'];
  readonly noEndpoint: NoEndpointResponder;
  readonly probes: Parameters<typeof openFlowLog>[0]['probes'];
  /** Warnings about the node, as sentences, by the part of the agent that found them. */
  readonly warnings: Map<string, readonly string[]>;
  /** Called once every source was synced, and unowned entries may be removed. */
  readonly confirmed: () => void;
}

/** Parts that exist once the node is known. */
export interface StartedNode extends AttachedPods {
  readonly orphanedLeases: OrphanedLeases;
  readonly live: LiveEnvironment;
  readonly policy: PolicyController;
  readonly denied: OpenedDeniedLog;
  readonly refusals: PolicyRefusals;
  readonly flowLog: OpenedFlowLog;
  readonly peers: Peers;
  readonly encryption: NodeEncryption;
  readonly proxy: NodeServices;
}

export interface StartHooks extends PodHooks {
  readonly observe?: ServePorts['observe'] & NonNullable<Parameters<typeof openPolicy>[0]['observe']>;
  readonly started: (node: StartedNode) => void;
  /** Tasks that run alongside until the signal is aborted. */
  readonly companions: (node: StartedNode) => readonly Promise<void>[];
}

/**
 * Runs from the first step until pods are served, then until the signal is aborted. Each step waits for its prerequisites; the order
 * matters only where stated. Plugins may call as soon as the journal is read: they wait for readiness, and their error names what is
 * missing.
 */
export async function startNode(parts: StartParts, hooks: StartHooks, signal: AbortSignal): Promise<void> {
  const { config, ovs, nodeState, changes, sources, readiness, log } = parts;
  const encryption = await openEncryption(config, parts.stack.wireGuard, signal);
  const live = await prepareBridge(parts, encryption, signal);
  const reserved = () => reservedRanges(live.current, globalAddresses(parts.stack, config.hostGateway), sources.http.host);
  const nodeNetworks = new PeerPodNetworks({ source: parts.peerSource, reserved });
  const policy = await openPolicy({ ...parts, nodeNetworks, observe: hooks.observe }, live, signal);
  const denied = openDeniedLog(parts, { live, policy }, signal);
  const refusals = new PolicyRefusals({ packets: ovs.packets, policy, log });
  const flowLog = openFlowLog(parts, { live, policy, denied, refusals }, signal);
  const podParts = { ...parts, live, policy: flowLog.policy };
  report(parts, 'taking the inventory of pods');
  const loopbackChanged = (usesLoopback: boolean) => wantSettings(parts, live.current, { usesLoopback });
  const pods = await openPods(podParts, { ...hooks, loopbackChanged }, signal);
  wantSettings(parts, live.current, pods.hostPorts);
  // After the pods: flows of an earlier release pass all pods, and the node's own of this one only those with flows in the entry tables.
  wantNode(config, nodeState, live.current);
  const orphanedLeases = openOrphanedLeases({ ...parts, ...pods }, () => server);
  const node = {
    ...pods,
    orphanedLeases,
    live,
    policy,
    denied,
    refusals,
    flowLog,
    encryption,
    ...openPeersAndServices(parts, { live, nodeNetworks, reserved, encryption }, hooks, signal),
  };
  hooks.started(node);
  const onCall = hooks.onCall ? { onCall: hooks.onCall } : {};
  const hostPortCheck = node.proxy.hostPorts.check;
  pods.hostPorts.use(hostPortCheck);
  const server = await serveCni(podParts, { ...pods, turns: sources.turns, ...onCall, hostPortCheck }, signal);
  const reclaiming = setInterval(() => reclaim(parts, node, signal), RECLAIM_EVERY_MS);
  try {
    await node.proxy.remember();
    const nodes = sources.nodes.replica;
    followEnvironment(parts, node);
    const annotations = openOwnAnnotations(sources, config.nodeName, log);
    const keeping = [
      keepHostSettings(parts, node, signal),
      watchEnvironment({ live, nodeName: config.nodeName, nodes, interfacesChanged: changes.interfaces }, signal),
      keepGateway(podParts, changes.gatewayGone, signal),
      annotations.run(signal),
      keepEncryption(parts, node, annotations, signal),
      ...hooks.companions(node),
      keepPeerPaths({ ...parts, annotations }, node, signal),
      keepNetworkCondition({ nodeName: config.nodeName, nodes, http: sources.http, readiness, log }, signal),
      ovs.lock.keep(() => nodeState.invalidate(), signal),
    ];
    const released = allowRemovals(parts, node, signal);
    const serving = serve(parts, node, released, signal);
    await Promise.all([serving, released.then(() => tuneMemory(signal)), ...keeping, untilAborted(signal)]);
  } finally {
    clearInterval(reclaiming);
    await server.close();
    await pods.ipam.close();
    await flowLog.ended();
  }
}

/** Prepares the bridge with its gateway and tunnel. */
async function prepareBridge(parts: StartParts, encryption: NodeEncryption, signal: AbortSignal): Promise<LiveEnvironment> {
  const { config, ovs, stack, nodeState, ports, sources, readiness, log } = parts;
  // A bridge that another program emptied forwards nothing until the whole known state is desired of it (`serve`).
  nodeState.reconcilers.bridge.withholdEntryPoints();
  report(parts, 'connecting to OVSDB');
  await ovs.lock.take(signal);
  // Before the first desired entry: an agent that does not know the journal's format ends, and must leave the node as the newer one left
  // it.
  await assertReadableJournal(journalIn(config.stateDir));
  const interfaces = () => readHostInterfaces(stack.links.socket);
  const localAddresses = () => readLocalAddresses(stack.links.socket, config.hostGateway);
  const about = {
    config,
    nodes: sources.nodes.replica,
    interfaces,
    localAddresses,
    liveSettings: () => liveSettingsOf(sources),
    peerPaths: parts.paths.current,
    isEncryptionEnding: () => encryption.isEnding,
  };
  await whenSettingsKnown(sources, signal);
  const live = await awaitEnvironment({ ...about, readiness, log }, signal);
  wantSwitch(config, nodeState, live.current);
  report(parts, `waiting for OVS to create ${config.hostGateway}`);
  const plugged = () => ports.whenPlugged(config.hostGateway, ofPorts.gateway, signal);
  await retryUntilAccepted({ what: 'gateway', work: plugged, readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  applyHostSettings(parts, live.current);
  return live;
}

/** Node, and addresses that no other node may have. */
interface ReachedNode {
  readonly live: LiveEnvironment;
  readonly nodeNetworks: PeerPodNetworks;
  readonly reserved: () => readonly ReservedRange[];
  readonly encryption: NodeEncryption;
}

function openPeersAndServices(
  parts: StartParts,
  { live, nodeNetworks, reserved, encryption }: ReachedNode,
  { observe = () => undefined }: StartHooks,
  signal: AbortSignal,
): Pick<StartedNode, 'peers' | 'proxy'> {
  const { config, ovs, stack, nodeState, sources, peerSource, readiness, log } = parts;
  const environment = () => live.current;
  const { turns } = sources;
  const appliedFlows = new AppliedFlows({ runDir: config.ovsRunDir, dataPath: config.ovsDatapathType, signal });
  const whenFlowsApplied = () => appliedFlows.whenApplied();
  const peers = new Peers({
    source: peerSource,
    nodeState,
    environment,
    reserved,
    dataPath: config.ovsDatapathType,
    turns,
    log,
    ...parts.paths.ofPeers,
    whenFlowsApplied,
    encryption: encryption.peers,
  });
  const addressesChanged = () => {
    peers.reservedChanged();
    nodeNetworks.reservedChanged();
  };
  live.subscribe(addressesChanged);
  nodeNetworks.reservedChanged(); // they were read when the bridge was ready, and may have changed since
  const node = { state: nodeState, bridge: ovs.openflow, routeSocket: stack.links.socket, environment: live, addressesChanged };
  const obstacle = (): string | undefined => {
    const state = readiness.state();
    return state.state === 'ready' ? undefined : state.reason;
  };
  const serving = { config, sources: { ...serveSources(sources, peerSource), obstacle }, node, holders: peers, observe, log };
  return { peers, proxy: openServices(serving, signal) };
}

function serveSources({ services, endpointSlices, nodes, events, http, turns }: KubeSources, peers: PeerSource) {
  const slices = endpointSlices.replica;
  return { services: services.replica, slices, nodes: nodes.replica, peers, events, apiServer: http.host, apiServerPort: http.port, turns };
}

/** Addresses of the gateway that are ours are in pod networks; others on it are removed again without notice (`HostTarget`). */
function globalAddresses({ links }: StartParts['stack'], gateway: string): ReturnType<typeof listAddresses> {
  const bridge = getLink(links.socket, gateway)?.index;
  return listAddresses(links.socket).filter(({ scope, link }) => scope === 'global' && link !== bridge);
}

/**
 * Each part follows the node's environment with its own subscription, in this order. Pods keep their addresses if the node's networks
 * change; the gateway keeps the addresses of the previous ones until the last of their pods is removed.
 */
function followEnvironment(parts: StartParts, { live, ipam, network, hostPorts, peers, proxy }: StartedNode): void {
  const { config, nodeState, sources } = parts;
  const on = (aspect: (environment: NodeEnvironment) => string, act: (now: NodeEnvironment) => void): void => {
    live.subscribe((now, before) => aspect(now) !== aspect(before) && act(now));
  };
  live.subscribe((now) => wantNode(config, nodeState, now));
  sources.liveSettings.replica.subscribe(() => live.look());
  on(podNetworks, (now) => ipam.setPools(podPoolsOf(now)));
  on(identity, () => peers.checkAgain());
  on(settingsInput, (now) => applyHostSettings(parts, now, hostPorts));
  on(families, () => hostPorts.want());
  on(families, () => proxy.services.checkAgain());
  on(mtuOf, () => network.resize());
  proxy.hostPorts.follow(() => hostPorts.compare());
  live.countPods(() => leasedNetworks(ipam.leases()));
  network.resize();
}

const podNetworks = ({ podCidrs }: NodeEnvironment): string => textOf(podCidrs);
/** Properties of a node that affect how its peers are reached. */
const identity = (environment: NodeEnvironment): string => {
  const { transport, wireGuard, directPackets = false, denied = '', policyMode = '' } = environment;
  const refusals = directPackets || wireGuard ? `${denied} ${policyMode}` : '';
  return `${textOf(ownCidrs(environment))} ${textOf(transport)} ${wireGuard === undefined} ${refusals}`;
};
const families = (environment: NodeEnvironment): string => familiesOf(environment).join();
const mtuOf = ({ gateway }: NodeEnvironment): string => String(gateway.mtu);

function textOf(values: readonly { readonly text: string }[]): string {
  return values.map(({ text }) => text).join();
}

/** Sets kernel settings without which packets are lost. @param hostPorts undefined until the host ports are known */
function wantSettings({ stack, nodeState }: StartParts, environment: NodeEnvironment, hostPorts?: Pick<HostPorts, 'usesLoopback'>): void {
  const interfaces = readHostInterfaces(stack.links.socket);
  wantHostSettings(environment, { interfaces, ...(hostPorts ? { hostPortsAtLoopback: hostPorts.usesLoopback } : {}) }, nodeState);
}

function applyHostSettings(parts: StartParts, environment: NodeEnvironment, hostPorts?: Pick<HostPorts, 'usesLoopback'>): void {
  const { nodeState } = parts;
  wantSettings(parts, environment, hostPorts);
  nodeState.reconcilers.settings.recheck();
  nodeState.reconcilers.host.invalidate();
}

/** The kernel's settings of an interface are lost when ovs-vswitchd recreates it. */
async function keepHostSettings(parts: StartParts, { live, hostPorts }: StartedNode, signal: AbortSignal): Promise<void> {
  const { gatewayMade } = parts.changes;
  while (!signal.aborted) {
    await gatewayMade.wait(signal);
    if (!signal.aborted) applyHostSettings(parts, live.current, hostPorts);
  }
}

/**
 * Follows the cluster, and reports ready once OVS has the whole known state.
 *
 * @param released resolves once every source is synced
 */
async function serve(parts: StartParts, { peers, proxy }: StartedNode, released: Promise<void>, signal: AbortSignal): Promise<void> {
  const { config, ovs, nodeState, sources, peerSource, readiness, log } = parts;
  peers.follow(released.then(() => nodeState.reconcilers.bridge.roundMade(signal)));
  proxy.follow(released);
  const notices = { peers: peerSource, nodeName: config.nodeName, events: sources.events };
  followPolicies({ policies: sources.networkPolicies.replica, ...notices });
  followClusterPolicies({ policies: sources.clusterNetworkPolicies.replica, ...notices });
  followNamespaces({ namespaces: sources.namespaces.replica, ...notices });
  report(parts, 'waiting for Services');
  await untilServicesKnown(sources, signal);
  await proxy.services.settled();
  await peers.settled();
  report(parts, 'waiting for the node’s flows and routes to be applied');
  const restoring = keepFlowRestore({ database: ovs.database, nodeState, lock: ovs.lock.name, readiness, log }, signal);
  const own = { owner: nodeOwner, bridge: nodeState.bridge.revision, host: nodeState.host.revision };
  const realized = async () => {
    await nodeState.reconcilers.bridge.lead(signal);
    await nodeState.realized(own, signal);
  };
  await retryUntilAccepted({ what: 'node', work: realized, readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  readiness.clear('start');
  log.info('ready', { tookMs: Math.round(performance.now()) });
  await restoring;
}

/** Reports the progress of the start in `/readyz` and STATUS of the CNI plugin. */
function report({ readiness }: Pick<StartParts, 'readiness'>, doing: string): void {
  readiness.obstruct('start', 'starting', `the agent starts: ${doing}`);
}

function reclaim({ log }: StartParts, { ipam, live }: { readonly ipam: Ipam; readonly live: LiveEnvironment }, signal: AbortSignal): void {
  ipam
    .retryJournal()
    .then(() => ipam.reclaim(signal))
    .then(() => {
      log.working('reclaim');
      live.look();
    })
    .catch((thrown: unknown) =>
      log.failing('reclaim', 'quarantined addresses could not be checked', { cause: SeineError.from(thrown, 'reclaim').message }),
    );
}

/** Waits shortly, and not long, for the API server if a Service is not stored on disk: pods without Services are better than no pods. */
async function untilServicesKnown({ services, endpointSlices }: KubeSources, signal: AbortSignal): Promise<void> {
  const known = [services, endpointSlices].every(({ replica }) => replica.size > 0);
  if (known) return;
  const patience = within(signal, KNOWLEDGE_PATIENCE_MS);
  await Promise.all([services.replica.whenSynced(patience), endpointSlices.replica.whenSynced(patience)]).catch(() =>
    signal.throwIfAborted(),
  );
}

async function allowRemovals(
  { sources, nodeState, confirmed, log }: StartParts,
  { peers, proxy, policy }: StartedNode,
  signal: AbortSignal,
): Promise<void> {
  const { nodes, services, endpointSlices } = sources;
  await whenInStep([nodes, services, endpointSlices], signal);
  await peers.settled();
  await proxy.services.settled();
  await markingBeforeRemovals(nodeState, signal);
  nodeState.allowRemovalsButPolicy();
  const { namespaces, networkPolicies, clusterNetworkPolicies, policyPods, pods } = sources;
  await whenInStep([nodes, namespaces, networkPolicies, clusterNetworkPolicies, policyPods, pods], signal);
  await policy.settled();
  nodeState.allowRemovals();
  policy.removalsAllowed();
  confirmed();
  log.info('all sources are synced; unowned entries are removed from now on');
}

/**
 * Waits until nftables marks packets for external addresses of Services, if it does so in time: routes to these addresses that an agent up
 * to 0.22.0 has left in the main table are removed after that.
 */
async function markingBeforeRemovals({ firewall, reconcilers }: StartParts['nodeState'], signal: AbortSignal): Promise<void> {
  await reconcilers.firewall.realized(firewall.revision, within(signal, MARKING_PATIENCE_MS)).catch(() => signal.throwIfAborted());
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
