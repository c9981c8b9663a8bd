import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileFirewall } from '../connectivity/compile-firewall.ts';
import { compileNode } from '../connectivity/compile-node.ts';
import { familiesOf, type NodeEnvironment } from '../connectivity/environment.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { cidrContains } from '../net/ip.ts';
import { type Address, listAddresses } from '../netlink/addresses.ts';
import { peerCredentials } from '../netlink/sys.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { tableNames, tables } from '../pipeline/tables.ts';
import { ofPorts, tunnelCarriers } from '../pipeline/well-known.ts';
import type { WantedPort } from '../wanted/switch-row.ts';
import type { ReservedRange } from './address-claims.ts';
import type { Agent, AgentHooks, RunningNode } from './agent.ts';
import { CniServer } from './cni-server.ts';
import { firewallTable, injectFrames } from './data-plane.ts';
import { flowCheck } from './flow-check.ts';
import { keepFlowRestore } from './flow-restore.ts';
import { onceLetGo } from './handover.ts';
import { applyHostSettings } from './host-settings.ts';
import { takeInventory } from './inventory.ts';
import { Ipam } from './ipam/ipam.ts';
import { FileJournalStore } from './ipam/journal-store.ts';
import type { Pool } from './ipam/lease.ts';
import type { KubeSources } from './kube-sources.ts';
import { readHostInterfaces, resolveEnvironment } from './node-environment.ts';
import { Peers } from './peers.ts';
import { NodePodNetwork } from './pod-network.ts';
import { followPolicies } from './policy-notice.ts';
import { alone, reservedRanges } from './reserved-ranges.ts';
import { Services } from './services.ts';
import { untilTaken } from './until-taken.ts';

/** How often what keeps the agent from knowing its node is looked at again (ms); changes of the Node are seen at once. */
const ENVIRONMENT_RETRY_MS = 500;
/** How long Services that no disk remembers are waited for before the switch may forward without them (ms). */
const KNOWLEDGE_PATIENCE_MS = 5_000;
/** How often the node is asked again for what it refused (ms). */
const REFUSED_RETRY_MS = 1_000;
/** How often addresses in quarantine are looked at (ms). */
const RECLAIM_EVERY_MS = 15_000;

const nodeOwner = ownerOf('node');

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
  const environment = await prepareBridge(agent, start);
  const node = await openNode(agent, environment, start);
  start.started(node);
  const { ipam, network } = node;
  const { cniSocket: socketPath, stateDir, status } = agent.config;
  const onCall = hooks.onCall ? { onCall: hooks.onCall } : {};
  const listen = () => CniServer.start({ socketPath, stateDir, ipam, network, peerCredentials, ...status, log, ...onCall });
  const server = await onceLetGo(listen, agent.readiness, log, signal);
  const reclaiming = setInterval(() => reclaim(ipam, start), RECLAIM_EVERY_MS);
  try {
    const keeping = [keepHostSettings(agent, environment, start), agent.plane.lock.keep(() => agent.plane.datapath.distrust(), signal)];
    await Promise.all([serve(agent, node, start), allowRemovals(agent, log, signal), ...keeping, untilAborted(signal)]);
  } finally {
    clearInterval(reclaiming);
    await server.close();
    await ipam.close();
  }
}

/** The bridge with its gateway and tunnel, and the node's own part of everything. */
async function prepareBridge(agent: Agent, { log, signal }: Start): Promise<NodeEnvironment> {
  const { config, plane } = agent;
  say(agent, 'connecting to the switch database');
  await plane.lock.take(signal);
  const environment = await untilEnvironment(agent, log, signal);
  wishForNode(agent, environment);
  say(agent, `waiting for the switch to make ${config.hostGateway}`);
  const plugged = () => plane.ports.whenPlugged(config.hostGateway, ofPorts.gateway, signal);
  await untilTaken({ what: 'gateway', work: plugged, readiness: agent.readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  setUpHost(agent, environment, log);
  return environment;
}

function setUpHost({ config, plane }: Agent, environment: NodeEnvironment, log: Log): void {
  applyHostSettings(familiesOf(environment), { gateway: config.hostGateway, transport: config.transportInterface }, log);
  plane.datapath.reconcilers.host.distrust();
}

/** The kernel's settings of an interface go with it when ovs-vswitchd makes it anew. */
async function keepHostSettings(agent: Agent, environment: NodeEnvironment, { log, signal }: Start): Promise<void> {
  const { gatewayMade } = agent.plane;
  signal.addEventListener('abort', () => gatewayMade.ring(), { once: true });
  while (!signal.aborted) {
    await gatewayMade.wait();
    if (!signal.aborted) setUpHost(agent, environment, log);
  }
}

async function openNode(agent: Agent, environment: NodeEnvironment, start: Start): Promise<RunningNode> {
  const { config, plane } = agent;
  const { log, signal } = start;
  say(agent, 'taking the inventory of pods');
  let network: NodePodNetwork | undefined;
  const openIpam = () =>
    Ipam.open({
      store: new FileJournalStore(join(config.stateDir, 'ipam.journal')),
      pools: poolsOf(environment),
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
      isAbsent: async (lease) => network?.isAbsent(lease) ?? false,
      log,
    });
  const ipam = await onceLetGo(openIpam, agent.readiness, log, signal);
  network = openNetwork(agent, environment, start);
  const inventory = await takeInventory({ ipam, pools: poolsOf(environment), database: plane.database, host: plane.host, network, log });
  log.info('pods of this node', { ...inventory });
  // What an ADD or a DEL that was cut short has left must be gone before its numbers and names are used again.
  plane.datapath.allowPodRemovals();
  await plane.datapath.reconcilers.switch.confirmed(signal);
  plane.datapath.reconcilers.bridge.confirmed(signal).then(
    () => network?.leftOversGone(),
    () => undefined, // the agent stops
  );
  const reserved = reservedRanges(environment, listAddresses(plane.host.socket).filter(isGlobal), agent.sources.http.host);
  const peers = new Peers({ source: agent.peers, datapath: plane.datapath, environment, reserved, log });
  return { environment, ipam, network, peers, services: openServices(agent, environment, { peers, reserved, log, signal }) };
}

const isGlobal = ({ scope }: Address): boolean => scope === 'global';

/** Follows the cluster, and says ready once the switch holds what is known of it. */
async function serve(agent: Agent, { peers: followed, services }: RunningNode, { log, signal }: Start): Promise<void> {
  const { config, plane, readiness, sources, peers } = agent;
  followed.follow();
  services.follow();
  followPolicies({ policies: sources.networkPolicies.replica, peers, nodeName: config.nodeName, events: sources.events });
  say(agent, 'waiting to know the Services');
  await untilServicesKnown(sources, signal);
  say(agent, 'waiting for bridge and host to take the node’s flows and routes');
  const restoring = keepFlowRestore({ database: plane.database, datapath: plane.datapath, lock: plane.lock.name, readiness, log }, signal);
  const { datapath } = plane;
  const own = { owner: nodeOwner, bridge: datapath.bridge.revision, host: datapath.host.revision };
  const realized = () => datapath.realized(own, signal);
  await untilTaken({ what: 'node', work: realized, readiness, log, retryMs: REFUSED_RETRY_MS }, signal);
  readiness.clear('start');
  log.info('ready', { tookMs: Date.now() - agent.startedAt.getTime() });
  await restoring;
}

/** Whoever asks why the agent is not ready learns how far it has come. */
function say({ readiness }: Agent, doing: string): void {
  readiness.obstruct('start', 'starting', `the agent starts: ${doing}`);
}

function reclaim(ipam: Ipam, { log, signal }: Start): void {
  ipam
    .reclaim(signal)
    .catch((thrown: unknown) =>
      log.warn('addresses in quarantine were not looked at', { cause: SeineError.from(thrown, 'reclaim').message }),
    );
}

/** Waits until node, pod CIDRs and transport interface are known, and says what is missing meanwhile. */
async function untilEnvironment({ config, sources, plane, readiness }: Agent, log: Log, signal: AbortSignal): Promise<NodeEnvironment> {
  const obstacle = 'environment';
  const { replica } = sources.nodes;
  for (let lastReason = ''; ; ) {
    try {
      const node = replica.get(config.nodeName);
      if (!node)
        throw new SeineError(
          'UNAVAILABLE',
          replica.synced ? `the API server has no Node ${config.nodeName}` : 'the API server has not answered yet',
        );
      const environment = resolveEnvironment(config, node, readHostInterfaces(plane.host.socket));
      readiness.clear(obstacle);
      return environment;
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

function wishForNode({ config, plane }: Agent, environment: NodeEnvironment): void {
  const { datapath } = plane;
  const { gateway, tunnel } = environment;
  const carrier = tunnelCarriers[tunnel.type];
  const ownPort = carrier.protocol === 'udp' && carrier.port !== tunnel.port;
  const ports: readonly WantedPort[] = [
    { name: gateway.name, type: 'internal', ofPort: gateway.ofPort, options: {}, externalIds: {}, mac: gateway.mac, mtu: gateway.mtu },
    {
      name: config.tunnelInterface,
      type: tunnel.type,
      ofPort: tunnel.ofPort,
      options: { remote_ip: 'flow', key: 'flow', local_ip: 'flow', ...(ownPort ? { dst_port: String(tunnel.port) } : {}) },
      externalIds: {},
    },
  ];
  const names = new Map(tableNames.map((name) => [tables[name].id, name]));
  datapath.wantBridge(
    nodeOwner,
    { name: config.ovsBridge, datapathType: config.ovsDatapathType, tableNames: names, externalIds: {} },
    ports,
  );
  datapath.want(nodeOwner, compileNode(environment));
  datapath.wantFirewall(nodeOwner, firewallTable, firewallBody(environment, config.noSNAT));
}

function firewallBody(environment: NodeEnvironment, noSnat: boolean): string {
  return compileFirewall(environment, { noSnat })
    .map(({ name, hook, rules }) => `chain ${name} {\n${[hook, ...rules].join('\n')}\n}`)
    .join('\n');
}

function openNetwork({ config, plane, readiness }: Agent, environment: NodeEnvironment, { hooks, log, signal }: Start): NodePodNetwork {
  return new NodePodNetwork({
    datapath: plane.datapath,
    ports: plane.ports,
    host: plane.host,
    readiness,
    flowCheck: flowCheck(plane.datapath, plane.openflow),
    datapathType: config.ovsDatapathType,
    mtu: () => environment.gateway.mtu,
    announce: (ofPort, frames) => injectFrames(plane, ofPort, frames, signal),
    life: signal,
    ...(hooks.onPodStage ? { onStage: hooks.onPodStage } : {}),
    log,
  });
}

interface ServicesContext extends Pick<Start, 'log' | 'signal'> {
  readonly peers: Peers;
  readonly reserved: readonly ReservedRange[];
}

function openServices(
  { plane, sources }: Agent,
  environment: NodeEnvironment,
  { peers, reserved, log, signal }: ServicesContext,
): Services {
  const { serviceCidrs, gateway } = environment;
  const others = reserved.filter(({ range, against }) => against === 'both' && !serviceCidrs.includes(range));
  return new Services({
    services: sources.services.replica,
    slices: sources.endpointSlices.replica,
    datapath: plane.datapath,
    families: familiesOf(environment),
    gateway: gateway.name,
    routedFamilies: serviceCidrs.map(({ family }) => family),
    holderOf: (ip) => others.find(({ range }) => cidrContains(range, ip))?.what ?? peers.claimantOf(alone(ip)),
    log,
    signal,
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

async function allowRemovals({ sources, plane }: Agent, log: Log, signal: AbortSignal): Promise<void> {
  const { nodes, services, endpointSlices } = sources;
  await Promise.all([nodes, services, endpointSlices].map(({ replica }) => replica.whenSynced(signal)));
  plane.datapath.allowRemovals();
  log.info('every source is in step; what nobody wants is removed from now on');
}

function poolsOf({ podCidrs, gateway }: NodeEnvironment): readonly Pool[] {
  return podCidrs.flatMap((cidr) => {
    const address = gateway.addresses.find(({ family }) => family === cidr.family);
    return address ? [{ cidr, gateway: address }] : [];
  });
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
