import { Debouncer } from '../../base/async/debouncer.ts';
import { type Cidr, hostCidr, type Ip, parseIp } from '../../base/net/ip.ts';
import { containedInMany } from '../../base/net/network-index.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { Proxying } from '../compile/intent.ts';
import type { ProxyNode } from '../compile/proxy-config.ts';
import { NodeAddresses, nodePortAddresses } from './node-addresses.ts';
import type { AddressHolders, ServeConfig, ServeNode, ServeSources } from './ports.ts';
import type { ProxyMode } from './proxy-mode.ts';
import { ServiceHost } from './service-host.ts';

interface NodeProxyOptions {
  readonly config: ServeConfig;
  readonly sources: Pick<ServeSources, 'nodes' | 'peers' | 'apiServer' | 'apiServerPort'>;
  readonly node: Pick<ServeNode, 'state' | 'routeSocket' | 'environment' | 'addressesChanged'>;
  readonly holders: Pick<AddressHolders, 'subscribe'>;
  readonly mode: ProxyMode;
}

/**
 * Time for which changes of other nodes are gathered (ms), and shortest time between two comparisons of Services: thousands of nodes may
 * join at once.
 */
const HOLDERS_SETTLE_MS = 20;
const HOLDERS_PAUSE_MS = 500;

/** Selects the Services that a change of the node concerns; all if omitted. */
type ConcernedServices = (service: Service) => boolean;

/** Properties of this node that decide which Services it serves and how; notifies when they have changed. */
export class NodeProxy {
  readonly host: ServiceHost;
  readonly #options: NodeProxyOptions;
  readonly #addresses: NodeAddresses;
  readonly #elsewhere: Elsewhere;
  readonly #signal: AbortSignal;
  #known:
    | {
        readonly environment: NodeEnvironment;
        readonly node: Node | undefined;
        readonly proxyAll: boolean;
        readonly proxying: Proxying;
      }
    | undefined;
  /** Relevant parts of the Node object as a string, to detect changes. */
  #identity = '';
  #gatewayText = '';

  constructor(options: NodeProxyOptions, signal: AbortSignal) {
    const { config, node, mode } = options;
    this.#options = options;
    this.#signal = signal;
    this.#addresses = new NodeAddresses(node.routeSocket, config.hostGateway);
    this.#elsewhere = new Elsewhere(options.sources);
    this.host = new ServiceHost({
      nodeState: node.state,
      environment: () => node.environment.current,
      own: this.#addresses,
      nodePortAddresses: () =>
        nodePortAddresses(this.#addresses.own, { among: config.proxy.nodePortAddresses, primary: this.#node()?.internalIps ?? [] }),
      proxyAll: () => mode.proxyAll,
      isElsewhere: (ip) => this.#elsewhere.has(ip),
      apiServer: { host: bareHost(options.sources.apiServer), port: options.sources.apiServerPort },
    });
  }

  /** Sets the node's entries for Services that are independent of the Services. */
  want(): void {
    this.#identity = this.#nodeText();
    this.#elsewhere.compare();
    this.host.want();
  }

  /** Calls back when Services have to be compared again, until the signal. */
  follow(changed: (which?: ConcernedServices) => void): void {
    const { config, sources, node, mode } = this.#options;
    const everythingChanged = (): void => {
      this.host.want();
      changed();
    };
    const ownChanged = (which: readonly Ip[]): void => {
      this.host.want();
      changed(usingOneOf(which.map(hostCidr)));
    };
    this.#addresses.follow(ownChanged, this.#signal, node.addressesChanged);
    this.#followHolders(changed);
    this.#gatewayText = textOf(node.environment.current.gateway.addresses);
    node.environment.subscribe(() => {
      this.host.want();
      this.#compareGateway(changed);
    });
    sources.nodes.subscribe((names) => {
      if (!names.has(config.nodeName) || this.#nodeText() === this.#identity) return;
      this.#identity = this.#nodeText();
      everythingChanged();
    });
    void mode.follow(everythingChanged, this.#signal);
  }

  /** Follows nodes: whether an address of a Service belongs to another node changes when nodes join, leave and change. */
  #followHolders(changed: (which: ConcernedServices) => void): void {
    const { holders, sources } = this.#options;
    let networks: Cidr[] = [];
    const compare = (): void => {
      const all = [...networks, ...this.#elsewhere.compare().map(hostCidr)];
      networks = [];
      if (all.length > 0) changed(usingOneOf(all));
    };
    const debouncer = new Debouncer({ waitMs: HOLDERS_SETTLE_MS, restMs: () => HOLDERS_PAUSE_MS }, compare, this.#signal);
    const note = (some: readonly Cidr[]): void => {
      networks.push(...some);
      debouncer.ring();
    };
    for (const end of [holders.subscribe(note), sources.peers.subscribe(() => debouncer.ring())])
      this.#signal.addEventListener('abort', end, { once: true });
    debouncer.ring(); // changes since the Services were first compared
  }

  /**
   * Compares the gateway's addresses. The node's own traffic to a Service comes from them: a Service with source ranges must include them.
   */
  #compareGateway(changed: (which?: ConcernedServices) => void): void {
    const text = textOf(this.#options.node.environment.current.gateway.addresses);
    if (text === this.#gatewayText) return;
    this.#gatewayText = text;
    changed(({ loadBalancerSourceRanges }) => loadBalancerSourceRanges.length > 0);
  }

  /** Current addresses of the node. */
  get addresses(): readonly Ip[] {
    return this.#addresses.own;
  }

  /** Proxy configuration, read for each of thousands of Services: computed again only when one of its inputs has changed. */
  get proxying(): Proxying {
    const { mode, node: side } = this.#options;
    const [environment, node, { proxyAll }] = [side.environment.current, this.#node(), mode];
    const known = this.#known;
    if (known && known.environment === environment && known.node === node && known.proxyAll === proxyAll) return known.proxying;
    const proxying = { config: mode.config, node: this.#proxyNode(environment, node) };
    this.#known = { environment, node, proxyAll, proxying };
    return proxying;
  }

  #node(): Node | undefined {
    return this.#options.sources.nodes.get(this.#options.config.nodeName);
  }

  #nodeText(): string {
    const node = this.#node();
    return `${node?.zone} ${node?.internalIps.join()}`;
  }

  #proxyNode(environment: NodeEnvironment, node: Node | undefined): ProxyNode {
    const { config } = this.#options;
    return {
      name: config.nodeName,
      ...(node?.zone === undefined ? {} : { zone: node.zone }),
      families: familiesOf(environment),
      sctp: config.ovsDatapathType === 'system',
      addresses: (node?.internalIps ?? []).map(parseIp),
      gateway: environment.gateway.addresses,
    };
  }
}

function textOf(addresses: readonly Ip[]): string {
  return addresses.map(({ text }) => text).join();
}

/** Selects Services with an address in one of the networks: only these are served differently. */
function usingOneOf(networks: readonly Cidr[]): ConcernedServices {
  const isIn = containedInMany(networks);
  return ({ clusterIps, externalIps, loadBalancerIngress }) =>
    [...clusterIps, ...externalIps, ...loadBalancerIngress.map(({ ip }) => ip)].some((text) => isIn(parseIp(text)));
}

/** Removes the brackets that an IPv6 address has in a URL. */
function bareHost(host: string): string {
  return host.replace(/^\[|\]$/g, '');
}

/** Addresses of other nodes and of the API server. */
class Elsewhere {
  readonly #peers: NodeProxyOptions['sources']['peers'];
  readonly #server: string;
  #known: ReadonlySet<string>;

  constructor({ peers, apiServer }: NodeProxyOptions['sources']) {
    this.#peers = peers;
    this.#server = bareHost(apiServer);
    this.#known = this.#read();
  }

  /** Reports whether the last `compare` found the address. */
  has({ text }: Ip): boolean {
    return text === this.#server || this.#known.has(text);
  }

  /** Reads the addresses of nodes again. @returns those that were added or removed */
  compare(): readonly Ip[] {
    const before = this.#known;
    this.#known = this.#read();
    const added = [...this.#known].filter((text) => !before.has(text));
    return [...added, ...[...before].filter((text) => !this.#known.has(text))].map(parseIp);
  }

  #read(): ReadonlySet<string> {
    return new Set([...this.#peers.peers()].flatMap(({ transport }) => Object.values(transport)));
  }
}
