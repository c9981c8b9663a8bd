import { Debouncer } from '../../base/async/debouncer.ts';
import { oncePerTurn } from '../../base/async/once-per-turn.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { isIp, parseIp } from '../../base/net/ip.ts';
import type { HostPort, HostPortCheck } from '../../dataplane/compile/host-port.ts';
import { KernelEvents } from '../../netlink/events.ts';
import { getLink } from '../../netlink/links.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import { ListenerReads } from '../../netlink/sockets/listener-reads.ts';
import { type ListeningSocket, listeningSockets, listeningSocketsByPort } from '../../netlink/sockets/listening-sockets.ts';
import { readSysctl } from '../../netlink/sysctl.ts';
import { HostPortHolders } from './host-port-holders.ts';
import { ownAddresses } from './node-addresses.ts';
import type { AddressHolders, ServeConfig, ServeNode, ServeSources } from './ports.ts';
import type { ServiceHost } from './service-host.ts';

/** Time for which changes are gathered (ms). */
const SETTLE_MS = 10;
/** Shortest time between two comparisons of all host ports (ms). */
const REST_MS = 500;

interface HostPortSourceParts {
  readonly config: ServeConfig;
  readonly sources: Pick<ServeSources, 'services' | 'peers' | 'apiServer' | 'apiServerPort'>;
  readonly node: Pick<ServeNode, 'routeSocket' | 'environment'>;
  readonly holders: AddressHolders;
  readonly host: Pick<ServiceHost, 'portHolder' | 'isNodeAddress'>;
  /** Socket of protocol `socketDiagnosis`. */
  readonly diagnosisSocket: NetlinkSocket;
  readonly log: Log;
}

/** State of host ports on this node, and its changes. */
export interface HostPortSource {
  readonly check: HostPortCheck;
  /** Calls back when the state of host ports may have changed, until the signal. */
  follow(changed: () => void): void;
}

export function openHostPortSource(parts: HostPortSourceParts, signal: AbortSignal): HostPortSource {
  const { config, sources, node, holders, host } = parts;
  const server = sources.apiServer.replace(/^\[|\]$/g, '');
  const own = oncePerTurn(() => ownAddresses(listAddresses(node.routeSocket), getLink(node.routeSocket, config.hostGateway)?.index));
  const reads = listenerReads(parts);
  const state = new HostPortHolders(
    {
      services: sources.services,
      host,
      holders,
      own,
      apiServer: { ip: isIp(server) ? parseIp(server) : undefined, port: sources.apiServerPort },
      environment: () => node.environment.current,
      agentPorts: agentPorts(config),
      listeners: (hostPort) => listenersOf(parts, reads, hostPort),
    },
    signal,
  );
  return {
    check: (hostPort) => state.stateOf(hostPort),
    follow: (changed) => {
      const debouncer = new Debouncer({ waitMs: SETTLE_MS, restMs: () => REST_MS }, changed, signal);
      const ring = (): void => debouncer.ring();
      const events = KernelEvents.open({ kinds: ['address'] }, ring);
      const ends = [sources.services.subscribe(ring), sources.peers.subscribe(ring), () => events.close()];
      signal.addEventListener(
        'abort',
        () => {
          for (const end of ends) end();
        },
        { once: true },
      );
      node.environment.subscribe(ring);
      ring();
    },
  };
}

/** Returns the TCP ports on which the agent itself listens. */
function agentPorts({ proxy, metricsAddress = '', metricsTLSAddress = '' }: ServeConfig): ReadonlyMap<number, string> {
  const named = [
    [proxy.healthzBindAddress, 'the health check of the Service proxy'],
    [metricsAddress, 'the metrics of the agent'],
    [metricsTLSAddress, 'the metrics of the agent'],
  ] as const;
  return new Map(named.filter(([address]) => address !== '').map(([address, purpose]) => [portOf(address), purpose]));
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}

/**
 * Returns the listening sockets. A kernel without diagnosis of a protocol leaves its sockets unknown: pods start, and the log names the
 * cause.
 */
function listenersOf(
  { log }: HostPortSourceParts,
  reads: ListenerReads,
  { transport, hostPort }: Pick<HostPort, 'transport' | 'hostPort'>,
) {
  if (transport === 'sctp' || (transport === 'udp' && isEphemeral(hostPort))) return [];
  let found: readonly ListeningSocket[] = [];
  try {
    found = reads.on(transport, hostPort);
    log.working(`sockets of ${transport}`);
  } catch (thrown) {
    const { message: cause } = SeineError.from(thrown, 'list listening sockets');
    log.failing(`sockets of ${transport}`, 'ports on which processes of the node listen are unknown; host ports may hide them', { cause });
  }
  return found;
}

function listenerReads({ diagnosisSocket }: HostPortSourceParts): ListenerReads {
  return new ListenerReads({
    ofPort: (transport, port) => listeningSockets(diagnosisSocket, transport, port),
    ofAll: (transport) => listeningSocketsByPort(diagnosisSocket, transport),
  });
}

const ephemeralPorts = oncePerTurn(() => readSysctl(['net', 'ipv4', 'ip_local_port_range']).split(/\s+/).map(Number));

/** Reports whether a port is ephemeral: a client's UDP socket without a peer has such a port, and its server is elsewhere. */
function isEphemeral(port: number): boolean {
  const [first = 0, last = 0] = ephemeralPorts();
  return port >= first && port <= last;
}
