import { familiesOf, type NodeEnvironment } from '../../connectivity/environment.ts';
import type { Node } from '../../kube/node.ts';
import type { Service } from '../../kube/service.ts';
import type { Log } from '../../log/log.ts';
import { cidrContains, type Ip, parseIp } from '../../net/ip.ts';
import { Nftables } from '../../netlink/nftables.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import type { Proxying } from '../../proxy/intent.ts';
import type { ProxyNode } from '../../proxy/proxy-config.ts';
import type { ReservedRange } from '../address-claims.ts';
import type { Agent } from '../agent.ts';
import type { LiveEnvironment } from '../live-environment.ts';
import type { Observe } from '../metrics/record.ts';
import type { Peers } from '../peers.ts';
import { speaksFor } from '../policy-notice.ts';
import { alone } from '../reserved-ranges.ts';
import { type ServiceChange, Services } from '../services.ts';
import { AffinityKeeper } from './affinity-keeper.ts';
import { ConnectionCleaner } from './connection-cleaner.ts';
import { HealthChecks } from './health-checks.ts';
import { lookForKubeProxy } from './kube-proxy.ts';
import { localEndpoints } from './local-endpoints.ts';
import { NodeAddresses, nodePortAddresses } from './node-addresses.ts';
import { ProgrammingTimes } from './programming-times.ts';
import { ProxyMode } from './proxy-mode.ts';
import { ServiceHost } from './service-host.ts';
import { type Stale, type StaleOptions, staleAfter } from './stale-connections.ts';

export interface NodeProxyOptions {
  readonly live: LiveEnvironment;
  readonly peers: Pick<Peers, 'claimantOf'>;
  readonly reserved: () => readonly ReservedRange[];
  readonly observe: Observe;
  readonly log: Log;
}

/** Everything that serves Services on this node. */
export class NodeProxy {
  readonly services: Services;
  readonly mode: ProxyMode;
  readonly cleaner: ConnectionCleaner;
  readonly health: HealthChecks;
  readonly affinity: AffinityKeeper;
  readonly host: ServiceHost;
  readonly #agent: Agent;
  readonly #options: NodeProxyOptions;
  readonly #addresses: NodeAddresses;
  readonly #signal: AbortSignal;
  #known:
    | {
        readonly environment: NodeEnvironment;
        readonly node: Node | undefined;
        readonly proxyAll: boolean;
        readonly proxying: Proxying;
      }
    | undefined;
  /** What of the Node object makes a difference; as text, to see whether it has changed. */
  #identity = '';

  private constructor(agent: Agent, options: NodeProxyOptions, signal: AbortSignal) {
    const { config, plane, sources } = agent;
    const { live, log, observe, peers } = options;
    this.#agent = agent;
    this.#options = options;
    this.#signal = signal;
    const nftables = Nftables.open();
    const conntrack = NetlinkSocket.open({ protocol: 'netfilter' });
    signal.addEventListener('abort', () => this.#close(nftables, conntrack), { once: true });
    this.mode = new ProxyMode({ config: config.proxy, look: (until) => lookForKubeProxy(nftables, until), log });
    this.#addresses = new NodeAddresses(plane.host.socket, config.hostGateway);
    this.host = new ServiceHost({
      datapath: plane.datapath,
      environment: () => live.current,
      own: this.#addresses,
      nodePortAddresses: () =>
        nodePortAddresses(this.#addresses.own, { among: config.proxy.nodePortAddresses, primary: this.#node()?.internalIps ?? [] }),
      proxyAll: () => this.mode.proxyAll,
      isElsewhere: elsewhere(agent, signal),
    });
    this.health = new HealthChecks(log);
    this.affinity = new AffinityKeeper({ bridge: plane.openflow, log, signal });
    this.cleaner = new ConnectionCleaner({ bridge: plane.openflow, host: conntrack, isOwn: (ip) => this.host.isOwn(ip), log, signal });
    this.services = new Services({
      services: sources.services.replica,
      slices: sources.endpointSlices.replica,
      datapath: plane.datapath,
      proxying: () => this.#proxying(),
      host: this.host,
      holderOf: (ip) => this.#reservedFor(ip) ?? peers.claimantOf(alone(ip)),
      consequences: {
        changed: (change, acknowledged) => this.#changed(change, acknowledged),
        looked: (key, service) => this.#looked(key, service),
      },
      turns: sources.turns,
      times: new ProgrammingTimes({ observe }),
      log,
      signal,
    });
  }

  /** What has this address, so that no Service may. */
  #reservedFor(ip: Ip): string | undefined {
    const { live, reserved } = this.#options;
    return reserved().find(
      ({ range, against }) => against === 'both' && !live.current.serviceCidrs.includes(range) && cidrContains(range, ip),
    )?.what;
  }

  /** Looks for a kube-proxy before the first Service is served. */
  static async open(agent: Agent, options: NodeProxyOptions, signal: AbortSignal): Promise<NodeProxy> {
    const proxy = new NodeProxy(agent, options, signal);
    await proxy.mode.look(signal);
    return proxy;
  }

  /** Serves what is known and follows what changes, until the signal. */
  follow(): void {
    const { sources, config } = this.#agent;
    this.#identity = this.#nodeText();
    this.host.wish();
    this.services.follow();
    this.#addresses.follow((which) => this.#addressesChanged(which), this.#signal);
    this.#options.live.subscribe(() => this.host.wish());
    sources.nodes.replica.subscribe((names) => {
      if (names.has(config.nodeName)) this.#nodeChanged();
    });
    void this.mode.follow(() => this.#everythingChanged(), this.#signal);
    void this.affinity.run();
  }

  #everythingChanged(): void {
    this.host.wish();
    this.services.lookAgain();
  }

  #nodeChanged(): void {
    const text = this.#nodeText();
    if (text === this.#identity) return;
    this.#identity = text;
    this.#everythingChanged();
  }

  /** Only Services with an external address that the node got or lost are served otherwise than before. */
  #addressesChanged(which: readonly Ip[]): void {
    this.host.wish();
    const texts = new Set(which.map(({ text }) => text));
    this.services.lookAgain(({ externalIps, loadBalancerIngress }) =>
      [...externalIps, ...loadBalancerIngress.map(({ ip }) => ip)].some((ip) => texts.has(ip)),
    );
  }

  #changed({ before, after, occasion }: ServiceChange, acknowledged: Promise<void>): void {
    const { forgetTCPConnections } = this.#agent.config.proxy;
    const options: StaleOptions = {
      transports: forgetTCPConnections ? ['udp', 'sctp', 'tcp'] : ['udp', 'sctp'],
      newServices: occasion === 'news' ? 'flushed' : 'kept',
    };
    const stale: Stale[] = [];
    for (const owner of new Set([...before.keys(), ...after.keys()])) {
      const [was, is] = [before.get(owner)?.intent, after.get(owner)?.intent];
      stale.push(staleAfter(was, is, options));
      this.affinity.changed(owner, was, is, acknowledged);
    }
    this.cleaner.clean({ bridge: stale.flatMap(({ bridge }) => bridge), host: stale.flatMap(({ host }) => host) }, acknowledged);
  }

  #looked(key: string, service: Service | undefined): void {
    const { config } = this.#agent;
    const port = service?.type === 'LoadBalancer' && service.externalTrafficPolicy === 'Local' ? service.healthCheckNodePort : undefined;
    const isAsked = this.mode.proxyAll && !config.proxy.disableServiceHealthCheckServer && this.services.portsOf(key).size > 0;
    if (service === undefined || port === undefined || !isAsked) this.health.set(key, undefined);
    else {
      const { namespace, name } = service;
      this.health.set(key, {
        namespace,
        name,
        port,
        localEndpoints: localEndpoints(service, this.services.slicesOf(key), config.nodeName),
      });
    }
    if (service) this.#tellOwner(key, service);
  }

  /** One node speaks of each Service. */
  #tellOwner(key: string, { uid, namespace, name }: Service): void {
    const { config, sources, peers } = this.#agent;
    const reasons = this.services.objections.of(key);
    if (reasons.length === 0 || !speaksFor(uid, config.nodeName, peers)) return;
    sources.events.post({
      type: 'Warning',
      reason: 'NotServedAsSpecified',
      message: `not everything that the Service says is served: ${reasons.join('; ')}`.slice(0, EVENT_TEXT_MAX),
      about: { apiVersion: 'v1', kind: 'Service', namespace, name, uid },
    });
  }

  #node() {
    return this.#agent.sources.nodes.replica.get(this.#agent.config.nodeName);
  }

  #nodeText(): string {
    const node = this.#node();
    return `${node?.zone} ${node?.internalIps.join()}`;
  }

  /** Asked for each of thousands of Services: worked out anew only where something that it is made of is another than before. */
  #proxying(): Proxying {
    const [environment, node, { proxyAll }] = [this.#options.live.current, this.#node(), this.mode];
    const known = this.#known;
    if (known && known.environment === environment && known.node === node && known.proxyAll === proxyAll) return known.proxying;
    const proxying = { config: this.mode.config, node: this.#proxyNode(environment, node) };
    this.#known = { environment, node, proxyAll, proxying };
    return proxying;
  }

  #proxyNode(environment: NodeEnvironment, node: Node | undefined): ProxyNode {
    const { config } = this.#agent;
    return {
      name: config.nodeName,
      ...(node?.zone === undefined ? {} : { zone: node.zone }),
      families: familiesOf(environment),
      sctp: config.ovsDatapathType === 'system',
      addresses: (node?.internalIps ?? []).map(parseIp),
      gateway: environment.gateway.addresses,
    };
  }

  #close(nftables: Nftables, conntrack: NetlinkSocket): void {
    this.health.close();
    nftables.close();
    conntrack.close();
  }
}

/** Kubernetes takes no more in an event's note. */
const EVENT_TEXT_MAX = 1_000;

/** Addresses of other nodes and of the API server, kept up to date. */
function elsewhere({ peers, sources }: Agent, signal: AbortSignal): (ip: Ip) => boolean {
  const apiServer = sources.http.host.replace(/^\[|\]$/g, '');
  let known: ReadonlySet<string> | undefined;
  const end = peers.subscribe(() => {
    known = undefined;
  });
  signal.addEventListener('abort', end, { once: true });
  return ({ text }) => {
    known ??= new Set([...peers.peers()].flatMap(({ transport }) => Object.values(transport)));
    return text === apiServer || known.has(text);
  };
}
