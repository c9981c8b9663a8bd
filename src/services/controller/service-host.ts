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
   * One route for each address that no configured range covers: ranges of Services may change, and no other address is taken. A cluster address
   * belongs to its Service with all ports. Of an external address only the Services' ports do: its route is in a table for packets that
   * nftables marks.
   */
  routes({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly WantedRoute[] {
    if (!this.#options.proxyAll()) return [];
    return addresses.flatMap(({ kind, ip }) => {
      if (!this.#needsRoute(ip)) return [];
      return kind === 'cluster' ? this.#route(ip) : { ...this.#route(ip), table: externalRouting.table };
    });
  }

  elements(intent: ServiceIntent): ReadonlyMap<FirewallKey, string> {
    if (!this.#options.proxyAll()) return new Map();
    const external = externalElements(intent, (ip) => this.#needsRoute(ip));
    return new Map([...portElements(intent, (ip) => this.isOwn(ip)), ...external]);
  }

  #needsRoute(ip: Ip): boolean {
    const { serviceCidrs } = this.#options.environment();
    return !isVirtual({ ip }) && !serviceCidrs.some((range) => cidrContains(range, ip)) && !this.staysWhereItIs(ip);
  }

  #route(ip: Ip): WantedRoute {
    const destination = hostCidr(ip);
    return { destination, via: serviceNextHop[ip.family], dev: this.#options.environment().gateway.name };
  }
}
