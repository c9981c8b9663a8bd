import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { type Address, listAddresses } from '../netlink/addresses.ts';
import { peerCredentials } from '../netlink/unix-peer.ts';
import { ofPorts } from '../pipeline/well-known.ts';
import type { Agent, AgentHooks, RunningNode } from './agent.ts';
import { CniServer } from './cni-server.ts';
import { injectFrames } from './data-plane.ts';
import { watchFirewall } from './firewall-watch.ts';
import { flowCheck } from './flow-check.ts';
import { keepFlowRestore } from './flow-restore.ts';
import { onceLetGo } from './handover.ts';
import { takeInventory } from './inventory.ts';
import { Ipam } from './ipam/ipam.ts';
import { FileJournalStore } from './ipam/journal-store.ts';
import type { KubeSources } from './kube-sources.ts';
import { LiveEnvironment } from './live-environment.ts';
import { keepLinks } from './lost-links.ts';
import { keepNetworkCondition } from './network-condition.ts';
import { readHostInterfaces } from './node-environment.ts';
import { followNode, setUpHost } from './node-life.ts';
import { nodeOwner, poolsOf, wishForNode } from './node-wishes.ts';
import { Peers } from './peers.ts';
import { NodePodNetwork } from './pod-network.ts';
import { followPolicies } from './policy-notice.ts';
import { NodeProxy } from './proxy/node-proxy.ts';
import { reservedRanges } from './reserved-ranges.ts';
import { beThrifty } from './thrift.ts';
import { untilTaken } from './until-taken.ts';

/** How often what keeps the agent from knowing its node is looked at again (ms); changes of the Node are seen at once. */
const ENVIRONMENT_RETRY_MS = 500;
/** How long Services that no disk remembers are waited for before the switch may forward without them (ms). */
const KNOWLEDGE_PATIENCE_MS = 5_000;
/** How often the node is asked again for what it refused (ms). */
const REFUSED_RETRY_MS = 1_000;
/** How often addresses in quarantine are looked at, and a journal that could not be written is tried again (ms). */
const RECLAIM_EVERY_MS = 15_000;

export interface Start {
  readonly hooks: AgentHooks;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly started: (node: RunningNode) => void;
}

/**
 * From nothing known to pods being served, until the signal. Each step waits for what it needs; the order matters only where it
 * says so. Plugins may call as soon as the journal is read: they wait for readiness, and learn what is missing if they cannot.
 */
export async function startNode(agent: Agent, start: Start): Promise<void> {
  const { hooks, log, signal } = start;
  const live = await prepareBridge(agent, start);
  const node = await openNode(agent, live, start);
  start.started(node);
  const { ipam, network } = node;
  const { cniSocket: socketPath, stateDir, status } = agent.config;
  const onCall = hooks.onCall ? { onCall: hooks.onCall } : {};
  const { pods } = agent;
  const { turns } = agent.sources;
  const listen = () => CniServer.start({ socketPath, stateDir, ipam, network, pods, peerCredentials, turns, ...status, log, ...onCall });
  const server = await onceLetGo(listen, agent.readiness, log, signal);
  const reclaiming = setInterval(() => reclaim(ipam, live, start), RECLAIM_EVERY_MS);
  try {
    const life = { live, node, log, signal };
    const keeping = [
      keepHostSettings(agent, live, start),
      followNode(agent, life),
      keepLinks(agent, life),
      watchFirewall(agent, life),
      agent.dataPath.follow({ ...agent, dataPath: agent.config.ovsDatapathType }, log, signal),
      keepNetworkCondition(
        {
          nodeName: agent.config.nodeName,
          nodes: agent.sources.nodes.replica,
          http: agent.sources.http,
          readiness: agent.readiness,
          log,
        },
        signal,
      ),
      agent.plane.lock.keep(() => agent.plane.datapath.distrust(), signal),
    ];
    await Promise.all([serve(agent, node, start), allowRemovals(agent, node, log, signal), ...keeping, untilAborted(signal)]);
  } finally {
    clearInterval(reclaiming);
    await server.close();
    await ipam.close();
  }
}

/** The bridge with its gateway and tunnel, and the node's own part of everything. */
async function prepareBridge(agent: Agent, { log, signal }: Start): Promise<LiveEnvironment> {
  const { config, plane } = agent;
  say(agent, 'connecting to the switch database');
  await plane.lock.take(signal);
  const live = await untilEnvironment(agent, log, signal);
  wishForNode(config, plane.datapath, live.current);
  say(agent, `waiting for the switch to make ${config.hostGateway}`);
  const plugged = () => plane.ports.whenPlugged(config.hostGateway, ofPorts.gateway, signal);
  await untilTaken({ what: 'gateway', work: plugged, readiness: agent.readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  setUpHost(agent, live.current, log);
  return live;
}

/** The kernel's settings of an interface go with it when ovs-vswitchd makes it anew. */
async function keepHostSettings(agent: Agent, live: LiveEnvironment, { log, signal }: Start): Promise<void> {
  const { gatewayMade } = agent.plane;
  signal.addEventListener('abort', () => gatewayMade.ring(), { once: true });
  while (!signal.aborted) {
    await gatewayMade.wait();
    if (!signal.aborted) setUpHost(agent, live.current, log);
  }
}

async function openNode(agent: Agent, live: LiveEnvironment, start: Start): Promise<RunningNode> {
  const { config, plane, sources } = agent;
  const { log, signal } = start;
  const { ipam, network } = await openPods(agent, live, start);
  const environment = () => live.current;
  const reservedNow = () => reservedRanges(live.current, listAddresses(plane.host.socket).filter(isGlobal), sources.http.host);
  let known = reservedNow();
  live.subscribe(() => (known = reservedNow()));
  const reserved = () => known;
  const peers = new Peers({
    source: agent.peers,
    datapath: plane.datapath,
    environment,
    reserved,
    dataPath: config.ovsDatapathType,
    turns: sources.turns,
    log,
  });
  const observe = start.hooks.observe ?? (() => undefined);
  const proxy = await NodeProxy.open(agent, { live, peers, reserved, observe, log }, signal);
  return {
    ipam,
    network,
    peers,
    services: proxy.services,
    proxy,
    get environment() {
      return live.current;
    },
    get environmentProblem() {
      return live.problem;
    },
  };
}

/** The pods that are here, with their addresses; what earlier calls have left half done is on its way out. */
async function openPods(agent: Agent, live: LiveEnvironment, start: Start): Promise<Pick<RunningNode, 'ipam' | 'network'>> {
  const { config, plane } = agent;
  const { log, signal } = start;
  say(agent, 'taking the inventory of pods');
  let network: NodePodNetwork | undefined;
  const openIpam = () =>
    Ipam.open({
      store: new FileJournalStore(join(config.stateDir, 'ipam.journal')),
      pools: poolsOf(live.current),
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
      isAbsent: async (lease) => network?.isAbsent(lease) ?? false,
      isSpokenFor: (lease) => agent.pods.isSpokenFor(lease),
      log,
    });
  const ipam = await onceLetGo(openIpam, agent.readiness, log, signal);
  network = openNetwork(agent, live, start);
  const inventory = await takeInventory({ ipam, pools: poolsOf(live.current), database: plane.database, host: plane.host, network, log });
  log.info('pods of this node', { ...inventory });
  for (const name of inventory.lostLinks) plane.goneLinks.names.add(name);
  plane.goneLinks.bell.ring();
  // What an ADD or a DEL that was cut short has left must be gone before its numbers and names are used again.
  plane.datapath.allowPodRemovals();
  await plane.datapath.reconcilers.switch.confirmed(signal);
  plane.datapath.reconcilers.bridge.confirmed(signal).then(
    () => network?.leftOversGone(),
    () => undefined, // the agent stops
  );
  return { ipam, network };
}

const isGlobal = ({ scope }: Address): boolean => scope === 'global';

/** Follows the cluster, and says ready once the switch holds what is known of it. */
async function serve(agent: Agent, { peers: followed, proxy, services }: RunningNode, { log, signal }: Start): Promise<void> {
  const { config, plane, readiness, sources, peers } = agent;
  followed.follow();
  proxy.follow();
  followPolicies({ policies: sources.networkPolicies.replica, peers, nodeName: config.nodeName, events: sources.events });
  say(agent, 'waiting to know the Services');
  await untilServicesKnown(sources, signal);
  await services.settled();
  say(agent, 'waiting for bridge and host to take the node’s flows and routes');
  const restoring = keepFlowRestore({ database: plane.database, datapath: plane.datapath, lock: plane.lock.name, readiness, log }, signal);
  const { datapath } = plane;
  const own = { owner: nodeOwner, bridge: datapath.bridge.revision, host: datapath.host.revision };
  const realized = () => datapath.realized(own, signal);
  await untilTaken({ what: 'node', work: realized, readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  readiness.clear('start');
  log.info('ready', { tookMs: Math.round(performance.now()) });
  await restoring;
}

/** Whoever asks why the agent is not ready learns how far it has come. */
function say({ readiness }: Agent, doing: string): void {
  readiness.obstruct('start', 'starting', `the agent starts: ${doing}`);
}

function reclaim(ipam: Ipam, live: LiveEnvironment, { log, signal }: Start): void {
  ipam
    .retryJournal()
    .then(() => ipam.reclaim(signal))
    .then(() => {
      log.working('reclaim');
      live.look();
    })
    .catch((thrown: unknown) =>
      log.failing('reclaim', 'addresses in quarantine were not looked at', { cause: SeineError.from(thrown, 'reclaim').message }),
    );
}

/** Waits until node, pod CIDRs and transport interface are known, and says what is missing meanwhile. */
async function untilEnvironment({ config, sources, plane, readiness }: Agent, log: Log, signal: AbortSignal): Promise<LiveEnvironment> {
  const obstacle = 'environment';
  const { replica } = sources.nodes;
  for (let lastReason = ''; ; ) {
    try {
      const live = new LiveEnvironment({ config, nodes: replica, interfaces: () => readHostInterfaces(plane.host.socket), log });
      readiness.clear(obstacle);
      return live;
    } catch (thrown) {
      const error = SeineError.from(thrown, 'look at the node');
      if (error.code !== 'UNAVAILABLE') throw error;
      readiness.obstruct(obstacle, 'starting', error.message);
      if (error.message !== lastReason) log.info('waiting to know the node', { reason: error.message });
      lastReason = error.message;
    }
    await changeOrTimeout(replica, signal);
  }
}

async function changeOrTimeout(replica: KubeSources['nodes']['replica'], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = replica.subscribe(() => finish());
    const timer = setTimeout(() => finish(), ENVIRONMENT_RETRY_MS);
    const finish = (): void => {
      end();
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    signal.addEventListener('abort', finish, { once: true });
  });
}

function openNetwork({ config, plane, readiness }: Agent, live: LiveEnvironment, { hooks, log, signal }: Start): NodePodNetwork {
  return new NodePodNetwork({
    datapath: plane.datapath,
    ports: plane.ports,
    host: plane.host,
    readiness,
    flowCheck: flowCheck(plane.datapath, plane.openflow),
    datapathType: config.ovsDatapathType,
    disableTxChecksumOffload: config.disableTXChecksumOffload,
    mtu: () => live.current.gateway.mtu,
    announce: (ofPort, frames) => injectFrames(plane, ofPort, frames, signal),
    life: signal,
    ...(hooks.onPodStage ? { onStage: hooks.onPodStage } : {}),
    log,
  });
}

/** A Service that no disk remembers is worth a short wait for the API server, not a long one: pods without Services beat no pods. */
async function untilServicesKnown({ services, endpointSlices }: KubeSources, signal: AbortSignal): Promise<void> {
  const known = [services, endpointSlices].every(({ replica }) => replica.size > 0);
  if (known) return;
  const patience = AbortSignal.any([signal, AbortSignal.timeout(KNOWLEDGE_PATIENCE_MS)]);
  await Promise.all([services.replica.whenSynced(patience), endpointSlices.replica.whenSynced(patience)]).catch(() =>
    signal.throwIfAborted(),
  );
}

async function allowRemovals(
  { sources, plane }: Agent,
  { peers, services: served }: RunningNode,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const { nodes, services, endpointSlices } = sources;
  await Promise.all([nodes, services, endpointSlices].map(({ replica }) => replica.whenSynced(signal)));
  await peers.settled();
  await served.settled();
  plane.datapath.allowRemovals();
  log.info('every source is in step; what nobody wants is removed from now on');
  await beThrifty(signal);
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
