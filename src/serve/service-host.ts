import { familiesOf, type NodeEnvironment } from '../connectivity/environment.ts';
import { cidrContains, hostCidr, type Ip } from '../net/ip.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import type { Transport } from '../pipeline/flow.ts';
import { nodePortAddress, serviceNextHop } from '../pipeline/well-known.ts';
import { isVirtual, type ServiceAddress, type ServiceIntent } from '../proxy/service-intent.ts';
import type { FirewallKey } from '../reconcile/firewall-target.ts';
import { nothing, type WantedRoute } from '../wanted/wanted.ts';
import type { ServedState } from './ports.ts';
import { addressElements, portElements, serviceFirewall, servicesTable } from './service-firewall.ts';

const hostOwner = ownerOf('node', 'services');

interface ServiceHostOptions {
  readonly nodeState: Pick<ServedState, 'want' | 'wantElements' | 'forget'>;
  readonly environment: () => NodeEnvironment;
  /** The node's own addresses, and those of them that node ports are opened on. */
  readonly own: { has(ip: Ip): boolean };
  readonly nodePortAddresses: () => readonly Ip[];
  readonly proxyAll: () => boolean;
  /** Where another node, or the API server, is: its address leads there, and not to the bridge. */
  readonly isElsewhere: (ip: Ip) => boolean;
  /** Where this agent finds the API server. */
  readonly apiServer: ApiServerPlace;
}

/** The address in canonical text, or a name. */
interface ApiServerPlace {
  readonly host: string;
  readonly port: number;
}

/** `--port` of the kubelet: logs, exec and probes of every pod of the node. */
const KUBELET_PORT = 10_250;

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

  /**
   * Component of the cluster that listens at this port of an address that stays where it is, in words.
   *
   * @param ip undefined for components that listen at every address of a node
   */
  portHolder(ip: Ip | undefined, transport: Transport, port: number): string | undefined {
    const { environment, apiServer } = this.#options;
    const { tunnel } = environment();
    if (transport === 'tcp' && port === KUBELET_PORT) return 'the kubelet';
    if (transport === 'udp' && tunnel.port === port) return 'the tunnels between nodes';
    return transport === 'tcp' && ip?.text === apiServer.host && port === apiServer.port ? 'the API server' : undefined;
  }

  /** Wants what does not depend on any Service; to be called again when something of it may have changed. */
  want(): void {
    const { nodeState, environment, nodePortAddresses, proxyAll } = this.#options;
    const { gateway } = environment();
    const families = familiesOf(environment());
    // Also where another proxy serves node ports: connections that this agent's rules have translated live in the tracker, and go on.
    nodeState.want(hostOwner, { ...nothing, routes: families.map((family) => this.#route(nodePortAddress[family])) });
    if (!proxyAll()) {
      nodeState.wantElements(hostOwner, new Map());
      return;
    }
    const body = serviceFirewall({ families, gateway: gateway.name });
    const table: readonly [FirewallKey, string] = [`table/${servicesTable}`, body];
    nodeState.wantElements(hostOwner, new Map([table, ...addressElements(nodePortAddresses(), families)]));
  }

  /** One route for each address that no configured range covers: ranges of Services may change, and nothing else is taken. */
  routes({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly WantedRoute[] {
    const { environment, proxyAll } = this.#options;
    if (!proxyAll()) return [];
    const { serviceCidrs } = environment();
    const needsRoute = ({ ip }: ServiceAddress): boolean =>
      !isVirtual({ ip }) && !serviceCidrs.some((range) => cidrContains(range, ip)) && !this.staysWhereItIs(ip);
    return addresses.filter(needsRoute).map(({ ip }) => this.#route(ip));
  }

  elements(intent: ServiceIntent): ReadonlyMap<FirewallKey, string> {
    return this.#options.proxyAll() ? portElements(intent, (ip) => this.isOwn(ip)) : new Map();
  }

  #route(ip: Ip): WantedRoute {
    const destination = hostCidr(ip);
    return { destination, via: serviceNextHop[ip.family], dev: this.#options.environment().gateway.name };
  }
}
