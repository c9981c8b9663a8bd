import { familiesOf, type NodeEnvironment, ownCidrs } from '../../connectivity/environment.ts';
import type { FirewallKey } from '../../datapath/firewall-target.ts';
import type { NodeDatapath } from '../../datapath/node-datapath.ts';
import { addressBits, cidrContains, cidrOf, type Ip } from '../../net/ip.ts';
import { ownerOf } from '../../pipeline/cookie.ts';
import { nodePortAddress, serviceNextHop } from '../../pipeline/well-known.ts';
import type { ServiceAddress, ServiceIntent } from '../../proxy/service-intent.ts';
import { nothing, type Route } from '../../wanted/wanted.ts';
import { addressElements, portElements, serviceFirewall, servicesTable } from './service-firewall.ts';

const hostOwner = ownerOf('node', 'services');

export interface ServiceHostOptions {
  readonly datapath: NodeDatapath;
  readonly environment: () => NodeEnvironment;
  /** The node's own addresses, and those of them that node ports are opened on. */
  readonly own: { has(ip: Ip): boolean };
  readonly nodePortAddresses: () => readonly Ip[];
  readonly proxyAll: () => boolean;
  /** Where another node, or the API server, is: its address leads there, and not to the bridge. */
  readonly isElsewhere: (ip: Ip) => boolean;
}

/** What the node's own stack holds for Services: routes to the bridge, and what its packet filter translates. */
export class ServiceHost {
  readonly #options: ServiceHostOptions;

  constructor(options: ServiceHostOptions) {
    this.#options = options;
  }

  /** Whether an address is the node's own. */
  isOwn(ip: Ip): boolean {
    return this.#options.own.has(ip);
  }

  /** Whether it is the node's, another's, or the API server's: pods may be served there, but it stays where it is. */
  staysWhereItIs(ip: Ip): boolean {
    return this.isOwn(ip) || this.#options.isElsewhere(ip);
  }

  /** Wants what does not depend on any Service; to be called again when something of it may have changed. */
  wish(): void {
    const { datapath, environment, nodePortAddresses, proxyAll } = this.#options;
    const { gateway } = environment();
    const families = familiesOf(environment());
    if (!proxyAll()) {
      datapath.forget(hostOwner);
      datapath.wantElements(hostOwner, new Map());
      return;
    }
    const body = serviceFirewall({ families, gateway: gateway.name, podCidrs: ownCidrs(environment()) });
    const table: readonly [FirewallKey, string] = [`table/${servicesTable}`, body];
    datapath.wantElements(hostOwner, new Map([table, ...addressElements(nodePortAddresses(), families)]));
    datapath.want(hostOwner, { ...nothing, routes: families.map((family) => this.#route(nodePortAddress[family])) });
  }

  /** One route for each address that no configured range covers: ranges of Services may change, and nothing else is taken. */
  routes({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly Route[] {
    const { environment, proxyAll } = this.#options;
    if (!proxyAll()) return [];
    const { serviceCidrs } = environment();
    const needsRoute = ({ kind, ip }: ServiceAddress): boolean =>
      kind !== 'nodePort' && !serviceCidrs.some((range) => cidrContains(range, ip)) && !this.staysWhereItIs(ip);
    return addresses.filter(needsRoute).map(({ ip }) => this.#route(ip));
  }

  elements(intent: ServiceIntent): ReadonlyMap<FirewallKey, string> {
    return this.#options.proxyAll() ? portElements(intent, (ip) => this.isOwn(ip)) : new Map();
  }

  #route(ip: Ip): Route {
    const destination = cidrOf(ip, addressBits(ip.family));
    return { destination, via: serviceNextHop[ip.family], dev: this.#options.environment().gateway.name };
  }
}
