import type { Log } from '../../base/log/log.ts';
import { UnservedReasons } from '../../base/log/unserved-reasons.ts';
import { cidrContains, type Ip } from '../../base/net/ip.ts';
import { ownCidrs } from '../../dataplane/compile/environment.ts';
import { legacyIptables } from '../../netlink/nftables/legacy-iptables.ts';
import { Nftables } from '../../netlink/nftables/nftables.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import { ClusterAddresses } from './cluster-addresses.ts';
import { AffinityKeeper } from './effects/affinity-keeper.ts';
import { ConnectionCleaner } from './effects/connection-cleaner.ts';
import { HealthCheckNodePorts } from './effects/health-check-node-ports.ts';
import { HostConnections } from './effects/host-connections.ts';
import { ProgrammingTimes } from './effects/programming-times.ts';
import { ProxyHealthz } from './effects/proxy-healthz.ts';
import { StartCleaner } from './effects/start-cleaner.ts';
import { TrackedConnections } from './effects/tracked-connections.ts';
import { UnservedEvents } from './effects/unserved-events.ts';
import { type HostPortSource, openHostPortSource } from './host-port-source.ts';
import { detectKubeProxy } from './kube-proxy.ts';
import { NodeProxy } from './node-proxy.ts';
import type { AddressHolders, ObserveProgramming, ServeConfig, ServeNode, ServeSources } from './ports.ts';
import { ProxyMode } from './proxy-mode.ts';
import { Services } from './services.ts';

export interface ServePorts {
  readonly config: ServeConfig;
  readonly sources: ServeSources;
  readonly node: ServeNode;
  readonly holders: AddressHolders;
  readonly observe: ObserveProgramming;
  readonly log: Log;
}

/** Services as this node serves them. */
export interface NodeServices {
  readonly services: Services;
  readonly mode: ProxyMode;
  readonly healthz: Pick<ProxyHealthz, 'sentence'>;
  /** Services whose `healthCheckNodePort` another process has. */
  readonly takenHealthCheckPorts: UnservedReasons;
  readonly cleaner: ConnectionCleaner;
  readonly affinity: AffinityKeeper;
  readonly startCleaner: StartCleaner;
  readonly tracked: TrackedConnections;
  readonly clusterAddresses: ClusterAddresses;
  /** State of host ports on this node. */
  readonly hostPorts: HostPortSource;
  /** Reads what the bridge serves. Await this before `follow`. Rejects only when the agent stops. */
  remember(): Promise<void>;
  /**
   * Serves known Services and follows changes, until the signal.
   *
   * @param released resolves once every source is synced and all of it is desired; rejects only when the agent stops
   */
  follow(released: Promise<void>): void;
}

/** Constructs the parts of this folder, and looks for a kube-proxy before the first Service is served. */
export function openServices(ports: ServePorts, signal: AbortSignal): NodeServices {
  const { config, sources, node: nodeSide, holders, observe, log } = ports;
  const nftables = Nftables.open();
  const conntrack = NetlinkSocket.open({ protocol: 'netfilter' });
  const diagnosisSocket = NetlinkSocket.open({ protocol: 'socketDiagnosis' });
  const isOwn = (port: number): boolean => healthz.isOwn(port);
  const places = { nftables, routeSocket: nodeSide.routeSocket, diagnosisSocket, legacy: legacyIptables, isOwn };
  const mode = new ProxyMode({ config: config.proxy, look: () => detectKubeProxy(places), looked: () => healthz.look(), log });
  const { nodeName } = config;
  const { obstacle, nodes } = sources;
  const healthz = new ProxyHealthz({ nodeName, address: config.proxy.healthzBindAddress, mode, nodes, obstacle, log });
  const node = new NodeProxy({ config, sources, node: nodeSide, holders, mode }, signal);
  const { state: nodeState, bridge } = nodeSide;
  const times = new ProgrammingTimes({ observe });
  const services = new Services({ sources, nodeState, node, holders, times, log, signal });
  const { forgetTCPConnections, disableServiceHealthCheckServer } = config.proxy;
  const host = new HostConnections(conntrack, (ip) => node.host.isOwn(ip));
  const cleaner = new ConnectionCleaner({ bridge, host, forgetTCPConnections, log, signal });
  const isOfNode = (ip: Ip): boolean => ownCidrs(nodeSide.environment.current).some((cidr) => cidrContains(cidr, ip));
  const affinity = new AffinityKeeper({ bridge, isOwn: isOfNode, compared: () => nodeState.learned.complete(), log, signal });
  const tracked = new TrackedConnections(conntrack);
  const startCleaner = new StartCleaner({ bridge, cleaner, tracked, log, signal });
  const isEnabled = () => mode.proxyAll && !disableServiceHealthCheckServer;
  const taken = new UnservedReasons('Service', log);
  const health = new HealthCheckNodePorts({ nodeName: config.nodeName, isEnabled, events: sources.events, taken, log });
  const events = new UnservedEvents({ nodeName: config.nodeName, peers: sources.peers, events: sources.events });
  const clusterAddresses = new ClusterAddresses();
  for (const subscriber of [clusterAddresses, affinity, cleaner, times, health, events]) services.subscribe(subscriber);
  const close = (): void => {
    for (const each of [healthz, health, nftables, conntrack, diagnosisSocket]) each.close();
  };
  signal.addEventListener('abort', close, { once: true });
  mode.look();
  const follow = (released: Promise<void>) => {
    node.want();
    services.follow();
    node.follow((which) => services.checkAgain(which));
    const inStep = released.then(() => services.inStep(signal));
    void affinity.run(inStep);
    void startCleaner.run(inStep);
  };
  const hostPorts = openHostPortSource({ config, sources, node: nodeSide, holders, host: node.host, diagnosisSocket, log }, signal);
  return {
    services,
    mode,
    healthz,
    takenHealthCheckPorts: taken,
    cleaner,
    affinity,
    startCleaner,
    tracked,
    clusterAddresses,
    hostPorts,
    remember: () => startCleaner.remember(),
    follow,
  };
}
