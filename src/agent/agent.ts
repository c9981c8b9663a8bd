import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compileFirewall } from '../connectivity/compile-firewall.ts';
import { compileNode } from '../connectivity/compile-node.ts';
import { familiesOf, type NodeEnvironment } from '../connectivity/environment.ts';
import { SeineError } from '../errors/seine-error.ts';
import { type PeerSource, peersFromNodes } from '../kube/peer-source.ts';
import type { Log } from '../log/log.ts';
import { selfTest } from '../netlink/self-test.ts';
import { peerCredentials } from '../netlink/sys.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { tableNames, tables } from '../pipeline/tables.ts';
import { ofPorts, tunnelCarriers } from '../pipeline/well-known.ts';
import type { WantedPort } from '../wanted/switch-row.ts';
import { CniServer, type CniServerOptions } from './cni-server.ts';
import type { AgentConfig } from './config.ts';
import { type DataPlane, firewallTable, injectFrames, openDataPlane, runDataPlane } from './data-plane.ts';
import { flowCheck } from './flow-check.ts';
import { keepFlowRestore } from './flow-restore.ts';
import { applyHostSettings } from './host-settings.ts';
import { takeInventory } from './inventory.ts';
import { Ipam } from './ipam/ipam.ts';
import { FileJournalStore } from './ipam/journal-store.ts';
import type { Pool } from './ipam/lease.ts';
import { type KubeSources, openKubeSources, runKubeSources } from './kube-sources.ts';
import { readHostInterfaces, resolveEnvironment } from './node-environment.ts';
import { followPeers } from './peers.ts';
import { NodePodNetwork } from './pod-network.ts';
import { followPolicies } from './policy-notice.ts';
import { Readiness } from './readiness.ts';
import { Services } from './services.ts';

/** How often what keeps the agent from knowing its node is looked at again (ms); changes of the Node are seen at once. */
const ENVIRONMENT_RETRY_MS = 500;
/** How long Services that no disk remembers are waited for before the switch may forward without them (ms). */
const KNOWLEDGE_PATIENCE_MS = 5_000;
/** How often addresses in quarantine are looked at (ms). */
const RECLAIM_EVERY_MS = 15_000;

const nodeOwner = ownerOf('node');

/** The running agent, for those who look at it. */
export interface Agent {
  readonly config: AgentConfig;
  readonly startedAt: Date;
  readonly readiness: Readiness;
  readonly plane: DataPlane;
  readonly sources: KubeSources;
  readonly peers: PeerSource;
  /** What is there once the node is known. */
  readonly node: () => RunningNode | undefined;
}

export interface RunningNode {
  readonly environment: NodeEnvironment;
  readonly ipam: Ipam;
  readonly network: NodePodNetwork;
  readonly services: Services;
}

export interface AgentHooks {
  readonly onCall?: CniServerOptions['onCall'];
  readonly events: Parameters<typeof openDataPlane>[0]['events'];
}

/** Opens everything and starts nothing. @throws SeineError `REFUSED` if the machine lacks something, `INVALID_INPUT` */
export function createAgent(config: AgentConfig, hooks: AgentHooks, log: Log, signal: AbortSignal): Agent & { run(): Promise<void> } {
  selfTest();
  const readiness = new Readiness();
  readiness.obstruct('start', 'starting', 'the agent starts');
  const plane = openDataPlane({ config, events: hooks.events, readiness, log }, signal);
  const sources = openKubeSources(config, join(config.stateDir, 'kube'), log);
  let node: RunningNode | undefined;
  const agent: Agent = {
    config,
    startedAt: new Date(),
    readiness,
    plane,
    sources,
    peers: peersFromNodes(sources.nodes.replica, config.nodeName),
    node: () => node,
  };
  const start = async (): Promise<void> => startNode(agent, { hooks, log, signal, started: (running) => (node = running) });
  return {
    ...agent,
    run: async () => void (await Promise.all([runDataPlane(plane, config.hostGateway, signal), runKubeSources(sources, signal), start()])),
  };
}

interface Start {
  readonly hooks: AgentHooks;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly started: (node: RunningNode) => void;
}

/**
 * From nothing known to pods being served. Each step waits for what it needs; the order matters only where it says so.
 */
async function startNode(agent: Agent, start: Start): Promise<void> {
  const { hooks, log, signal, started } = start;
  const { config, plane, readiness, sources } = agent;
  await holdTheBridge(agent, log, signal);
  const environment = await untilEnvironment(agent, log, signal);
  wishForNode(agent, environment);
  await plane.ports.whenPlugged(config.hostGateway, ofPorts.gateway, signal);
  applyHostSettings(familiesOf(environment), { gateway: config.hostGateway, transport: config.transportInterface }, log);
  plane.datapath.reconcilers.host.distrust();

  let network: NodePodNetwork | undefined;
  const ipam = await Ipam.open({
    store: new FileJournalStore(join(config.stateDir, 'ipam.journal')),
    pools: poolsOf(environment),
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    isAbsent: async (lease) => network?.isAbsent(lease) ?? false,
    log,
  });
  network = openNetwork(agent, environment, start);
  const inventory = takeInventory({ ipam, database: plane.database, host: plane.host, network, log });
  log.info('pods of this node', inventory);
  const services = openServices(agent, environment, signal);
  started({ environment, ipam, network, services });

  followPeers(agent.peers, plane.datapath, environment);
  services.follow();
  followPolicies({ policies: sources.networkPolicies.replica, peers: agent.peers, nodeName: config.nodeName, events: sources.events });
  await untilServicesKnown(sources, signal);
  const restoring = keepFlowRestore({ database: plane.database, datapath: plane.datapath, lock: plane.lock, readiness, log }, signal);
  await plane.datapath.realized({ owner: nodeOwner, bridge: plane.datapath.bridge.revision, host: plane.datapath.host.revision }, signal);
  readiness.clear('start');
  log.info('ready', { tookMs: Date.now() - agent.startedAt.getTime() });

  const server = await CniServer.start({
    socketPath: config.cniSocket,
    stateDir: config.stateDir,
    ipam,
    network,
    peerCredentials,
    log,
    ...(hooks.onCall ? { onCall: hooks.onCall } : {}),
  });
  const reclaiming = setInterval(() => void ipam.reclaim(signal), RECLAIM_EVERY_MS);
  try {
    await Promise.all([restoring, allowRemovals(agent, log, signal), untilAborted(signal)]);
  } finally {
    clearInterval(reclaiming);
    await server.close();
    await ipam.close();
  }
}

/** One agent per bridge: a second one waits here until the first is gone. */
async function holdTheBridge({ plane, config, readiness }: Agent, log: Log, signal: AbortSignal): Promise<void> {
  const lock = plane.database.lock(plane.lock);
  await plane.database.synced(signal);
  const obstacle = 'lock';
  if (!lock.held) readiness.obstruct(obstacle, 'starting', `another agent holds bridge ${config.ovsBridge}`);
  await lock.whenHeld(signal);
  readiness.clear(obstacle);
  lock.whenLost(signal).then(
    () => {
      // The connection to the database ended, or the lock was stolen: until it is ours again nothing is written.
      if (!signal.aborted) void holdAgain();
    },
    () => undefined, // the agent stops
  );
  const holdAgain = async (): Promise<void> => {
    log.warn('the lock of the bridge is lost', { lock: plane.lock });
    await lock.whenHeld(signal).catch(() => undefined); // only the signal rejects
    plane.datapath.distrust();
    if (!signal.aborted) lock.whenLost(signal).then(holdAgain, () => undefined);
  };
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

function openNetwork({ config, plane, readiness }: Agent, environment: NodeEnvironment, { log, signal }: Start): NodePodNetwork {
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
    log,
  });
}

function openServices({ plane, sources }: Agent, environment: NodeEnvironment, signal: AbortSignal): Services {
  return new Services({
    services: sources.services.replica,
    slices: sources.endpointSlices.replica,
    datapath: plane.datapath,
    families: familiesOf(environment),
    gateway: environment.gateway.name,
    routedFamilies: environment.serviceCidrs.map(({ family }) => family),
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
