import { cidrContains, hostCidr, type Ip } from '../../base/net/ip.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { nothing, type WantedRoute } from '../../dataplane/desired/host-entries.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { externalRouting, nodePortAddress, serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import type { FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';
import { isVirtual, type ServiceIntent } from '../compile/service-intent.ts';
import type { ServedState } from './ports.ts';
import {
  addressElements,
  externalElements,
  externalFirewall,
  externalRules,
  externalTable,
  portElements,
  serviceFirewall,
  servicesTable,
} from './service-firewall.ts';

const hostOwner = ownerOf('node', 'services');

interface ServiceHostOptions {
  readonly nodeState: Pick<ServedState, 'want' | 'wantElements' | 'forget'>;
  readonly environment: () => NodeEnvironment;
  /** Addresses of the node, and those of them on which node ports are opened. */
  readonly own: { has(ip: Ip): boolean };
  readonly nodePortAddresses: () => readonly Ip[];
  readonly proxyAll: () => boolean;
  /** Reports whether another node, or the API server, has this address: packets to it do not go to the bridge. */
  readonly isElsewhere: (ip: Ip) => boolean;
  /** Place of the API server as this agent uses it. */
  readonly apiServer: ApiServerPlace;
}

/** Address in canonical text, or a name. */
interface ApiServerPlace {
  readonly host: string;
  readonly port: number;
}

/** `--port` of the kubelet: logs, exec and probes of every pod of the node. */
const KUBELET_PORT = 10_250;

/** Entries of the node's own stack for Services: routes to the bridge, and nftables translations. */
export class ServiceHost {
  readonly #options: ServiceHostOptions;

  constructor(options: ServiceHostOptions) {
    this.#options = options;
  }

  /** Reports whether an address is the node's own. */
  isOwn(ip: Ip): boolean {
    return this.#options.own.has(ip);
  }

  /**
   * Reports whether the address is the node's, another node's, or the API server's: its Service is served to pods, but the address stays
   * where it is.
   */
  isNodeAddress(ip: Ip): boolean {
    return this.isOwn(ip) || this.#options.isElsewhere(ip);
  }

  /**
   * Describes the component of the cluster that listens at this port of an address that stays where it is.
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

  /** Sets the entries that do not depend on any Service; call again when one of the inputs may have changed. */
  want(): void {
    const { nodeState, environment, nodePortAddresses, proxyAll } = this.#options;
    const { gateway } = environment();
    const families = familiesOf(environment());
    // Also where another proxy serves node ports: connections that this agent's rules have translated are still tracked, and continue.
    const rules = proxyAll() ? externalRules(families) : [];
    nodeState.want(hostOwner, { ...nothing, routes: families.map((family) => this.#route(nodePortAddress[family])), rules });
    if (!proxyAll()) {
      nodeState.wantElements(hostOwner, new Map());
      return;
    }
    const options = { families, gateway: gateway.name };
    const tables: readonly (readonly [FirewallKey, string])[] = [
      [`table/${servicesTable}`, serviceFirewall(options)],
      [`table/${externalTable}`, externalFirewall(options)],
    ];
    nodeState.wantElements(hostOwner, new Map([...tables, ...addressElements(nodePortAddresses(), families)]));
  }

  /**
   * Returns one route for each address that no configured range covers: ranges of Services may change, and no other address is routed. A
   * cluster address belongs to its Service with all ports. At an external address only the Services' ports do: its route is in a table for
   * packets that nftables marks.
   */
  routes({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly WantedRoute[] {
    if (!this.#options.proxyAll()) return [];
    return addresses.flatMap(({ kind, ip }) => {
      if (!this.#needsRoute(ip)) return [];
      return kind === 'cluster' ? this.#route(ip) : { ...this.#route(ip), table: externalRouting.table };
    });
  }

  /** Returns the nftables elements of some addresses of one port of a Service; of all if omitted. */
  elements(intent: ServiceIntent, addresses = intent.addresses): ReadonlyMap<FirewallKey, string> {
    if (!this.#options.proxyAll()) return new Map();
    const external = externalElements({ ...intent, addresses }, (ip) => this.#needsRoute(ip));
    return new Map([...portElements(intent, (ip) => this.isOwn(ip), addresses), ...external]);
  }

  #needsRoute(ip: Ip): boolean {
    const { serviceCidrs } = this.#options.environment();
    return !isVirtual({ ip }) && !serviceCidrs.some((range) => cidrContains(range, ip)) && !this.isNodeAddress(ip);
  }

  #route(ip: Ip): WantedRoute {
    const destination = hostCidr(ip);
    return { destination, via: serviceNextHop[ip.family], dev: this.#options.environment().gateway.name };
  }
}
