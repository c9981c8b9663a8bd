import { cidrContains, type Ip } from '../../base/net/ip.ts';
import { isSpecial } from '../../base/net/special-ranges.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { type HostPort, type HostPortRejection, type HostPortState, placeOf } from '../../dataplane/compile/host-port.ts';
import { virtualRanges } from '../../dataplane/pipeline/well-known.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { ListeningSocket } from '../../netlink/sockets/listening-sockets.ts';
import { transports } from '../compile/intent.ts';
import type { AddressHolders } from './ports.ts';
import type { ServiceHost } from './service-host.ts';

interface HostPortHoldersOptions {
  readonly services: Pick<Replica<Service>, 'entries' | 'subscribe'>;
  readonly host: Pick<ServiceHost, 'portHolder' | 'isNodeAddress'>;
  /** Place of the API server as this agent uses it; no address if it is a name. */
  readonly apiServer: { readonly ip: Ip | undefined; readonly port: number };
  readonly holders: Pick<AddressHolders, 'holderOf'>;
  readonly environment: () => Pick<NodeEnvironment, 'serviceCidrs'>;
  /** Returns the node's current addresses. */
  readonly own: () => readonly Ip[];
  /** TCP ports of the agent itself, each with its purpose. */
  readonly agentPorts: ReadonlyMap<number, string>;
  /** Returns the sockets of the node's processes on a port. */
  readonly listeners: (hostPort: Pick<HostPort, 'transport' | 'hostPort'>) => readonly ListeningSocket[];
}

/** Ports and addresses that Services use on every node. */
interface ServiceUse {
  /** Services by transport and port. */
  readonly ports: ReadonlyMap<string, string>;
  /** Services by cluster address, in canonical text. */
  readonly addresses: ReadonlyMap<string, string>;
}

/**
 * State of host ports on this node: addresses that can never be the node's, ports that are reserved, and ports on which a process of the
 * node listens.
 */
export class HostPortHolders {
  readonly #options: HostPortHoldersOptions;
  #use: ServiceUse | undefined;

  constructor(options: HostPortHoldersOptions, signal: AbortSignal) {
    this.#options = options;
    const end = options.services.subscribe(() => (this.#use = undefined));
    signal.addEventListener('abort', end, { once: true });
  }

  stateOf(hostPort: HostPort): HostPortState {
    const own = this.#options.own();
    const forbidden = this.#foreignAddress(hostPort, own) ?? this.#reservedPort(hostPort, own);
    if (forbidden) return { forbidden, isWaiting: false, kept: [] };
    const sockets = this.#options.listeners(hostPort);
    const occupied = occupiedBy(hostPort, sockets);
    const { hostIp } = hostPort;
    const isWaiting = hostIp !== undefined && hostIp.value !== 0n && !isLoopback(hostIp) && !isAmong(own, hostIp);
    return { ...(occupied ? { occupied } : {}), isWaiting, kept: this.#keptBy(hostPort, sockets) };
  }

  /** Rejects the address of a host port if it can never be this node's. */
  #foreignAddress({ hostIp }: HostPort, own: readonly Ip[]): HostPortRejection | undefined {
    if (hostIp === undefined || hostIp.value === 0n || isLoopback(hostIp)) return undefined;
    const { environment, holders, host, apiServer } = this.#options;
    const reason = (text: string): HostPortRejection => ({ field: 'hostIP', reason: `${text}, not an address of this node` });
    const service = this.#usedByServices().addresses.get(hostIp.text);
    if (service !== undefined) return reason(`is the cluster address of Service ${service}`);
    if (environment().serviceCidrs.some((range) => cidrContains(range, hostIp))) return reason('is in the network of Services');
    if (virtualRanges.some((range) => cidrContains(range, hostIp))) return reason('is a virtual address of Seine');
    if (isSpecial(hostIp)) return reason(`is ${specialKind(hostIp)}`);
    if (isAmong(own, hostIp)) return undefined;
    if (hostIp.text === apiServer.ip?.text) return reason('is the address of the API server');
    const holder = holders.holderOf(hostIp);
    if (holder !== undefined) return reason(`belongs to ${holder}`);
    return host.isNodeAddress(hostIp) ? reason('belongs to another node') : undefined;
  }

  #reservedPort(wanted: HostPort, own: readonly Ip[]): HostPortRejection | undefined {
    const { transport, hostPort } = wanted;
    const { agentPorts, host } = this.#options;
    const rejection = (holder: string): HostPortRejection => ({ field: 'hostPort', reason: `belongs to ${holder}` });
    const agent = transport === 'tcp' ? agentPorts.get(hostPort) : undefined;
    const holder = agent ?? host.portHolder(undefined, transport, hostPort);
    if (holder !== undefined) return rejection(holder);
    for (const ip of own.filter((ip) => isAt(wanted, ip))) {
      const there = host.portHolder(ip, transport, hostPort);
      if (there !== undefined) return rejection(there);
    }
    const service = this.#usedByServices().ports.get(portKey(transport, hostPort));
    return service === undefined ? undefined : rejection(`Service ${service} it is`);
  }

  /** Returns the addresses that a host port at every address leaves to their processes. */
  #keptBy(wanted: HostPort, sockets: readonly ListeningSocket[]): readonly Ip[] {
    const { ip, port } = this.#options.apiServer;
    const isApiServers = ip !== undefined && wanted.transport === 'tcp' && wanted.hostPort === port;
    const addresses = [...sockets.map(({ address }) => address), ...(isApiServers ? [ip] : [])];
    return addresses.filter((ip) => ip.value !== 0n && placeOf(wanted, ip.family) === 'everywhere');
  }

  #usedByServices(): ServiceUse {
    if (this.#use) return this.#use;
    const ports = new Map<string, string>();
    const addresses = new Map<string, string>();
    for (const [name, { ports: ofService, healthCheckNodePort, clusterIps }] of this.#options.services.entries()) {
      for (const ip of clusterIps) addresses.set(ip, name);
      for (const { nodePort, protocol } of ofService)
        if (nodePort !== undefined) ports.set(portKey(transports[protocol], nodePort), `${name}, whose node port`);
      if (healthCheckNodePort !== undefined) ports.set(portKey('tcp', healthCheckNodePort), `${name}, whose health check node port`);
    }
    return (this.#use = { ports, addresses });
  }
}

/** Describes the process that listens at the same address, or at every address. */
function occupiedBy(wanted: HostPort, sockets: readonly ListeningSocket[]): HostPortRejection | undefined {
  for (const { family, address, isIpv6Only } of sockets) {
    const families = family === 'ipv6' && address.value === 0n && !isIpv6Only ? (['ipv6', 'ipv4'] as const) : [family];
    const places = families.map((each) => placeOf(wanted, each)).filter((place) => place !== undefined);
    const isSame = places.some((place) => address.value === 0n || (place !== 'everywhere' && place.text === address.text));
    if (!isSame) continue;
    const where = address.value === 0n ? 'every address' : address.text;
    return { field: 'hostPort', reason: `is in use: a process of the node listens at ${where}` };
  }
  return undefined;
}

function isAt(wanted: HostPort, ip: Ip): boolean {
  const place = placeOf(wanted, ip.family);
  return place === 'everywhere' || place?.text === ip.text;
}

function isLoopback({ text }: Ip): boolean {
  return text.startsWith('127.') || text === '::1';
}

function isAmong(own: readonly Ip[], { text }: Ip): boolean {
  return own.some((each) => each.text === text);
}

function specialKind({ text, family, value }: Ip): string {
  if (text.startsWith('169.254.') || /^fe[89ab]/.test(text)) return 'link-local';
  const first = family === 'ipv4' ? value >> 28n : value >> 120n;
  return first === (family === 'ipv4' ? 0xen : 0xffn) ? 'a multicast address' : 'a special-purpose address';
}

function portKey(transport: HostPort['transport'], port: number): string {
  return `${transport} ${port}`;
}
