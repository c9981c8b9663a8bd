import { SeineError } from '../base/errors/seine-error.ts';
import type { Log } from '../base/log/log.ts';
import { setTunnelNeighbours } from '../dataplane/targets/switch/tunnel-neighbour-cache.ts';
import type { PeerSource } from '../kubernetes/resources/peer-source.ts';
import { errnoOf } from '../netlink/errno.ts';
import { getLink } from '../netlink/links.ts';
import { Batch } from '../netlink/message.ts';
import { listNeighboursOffThread, type Neighbour, resolveNeighbour, verifyNeighbour } from '../netlink/routing/neighbours.ts';
import { lookUpRoute } from '../netlink/routing/routes.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import type { LiveEnvironment } from '../nodes/local/live-environment.ts';
import { TunnelAddresses } from '../nodes/peers/tunnel-addresses.ts';
import { type NeighbourPorts, TunnelNeighbours, type TunnelNextHop } from '../nodes/peers/tunnel-neighbours.ts';
import type { AgentConfig } from './config/agent-config.ts';

/** Errors of the kernel for an address that it may not or cannot send to. */
const unreachable = new Set(['EINVAL', 'EACCES']);

interface TunnelNeighbourParts {
  readonly config: Pick<AgentConfig, 'ovsDatapathType' | 'ovsRunDir'>;
  readonly peers: Pick<PeerSource, 'peers' | 'subscribe'>;
  readonly live: Pick<LiveEnvironment, 'current'>;
  readonly log: Log;
}

/**
 * Keeps the neighbours of tunnels up to date until the signal is aborted. On the kernel data path they are the kernel's own, which verifies
 * them itself.
 */
export async function keepTunnelNeighbours({ config, peers, live, log }: TunnelNeighbourParts, signal: AbortSignal): Promise<void> {
  if (config.ovsDatapathType !== 'netdev') return;
  const tunnels = new TunnelAddresses(peers);
  // A separate socket: it is busy while a large table is listed off the main thread.
  const socket = NetlinkSocket.open();
  try {
    const ports = neighbourPorts(socket, config.ovsRunDir);
    const addresses = () => tunnels.of(live.current.transport);
    await new TunnelNeighbours({ ...ports, addresses, now: () => performance.now(), log }).run(signal);
  } finally {
    tunnels.end();
    socket.close();
  }
}

function neighbourPorts(socket: NetlinkSocket, runDir: string): NeighbourPorts {
  return {
    nextHopOf: (address) => nextHopOf(socket, address),
    list: async (hops) => {
      const filters = new Map(hops.map(({ link, address: { family } }) => [`${family} ${link}`, { family, link }]));
      const lists: Neighbour[][] = [];
      for (const filter of filters.values()) lists.push(await listNeighboursOffThread(socket, filter)); // one request per socket at a time
      return lists.flat();
    },
    verify: (hop) => ask(socket, (batch) => verifyNeighbour(batch, hop)),
    resolve: (hop) => ask(socket, (batch) => resolveNeighbour(batch, hop)),
    set: async (hops, until) => {
      const neighbours = hops.flatMap(({ link, address, mac }) => {
        const bridge = getLink(socket, link)?.name;
        return bridge === undefined ? [] : [{ bridge, address: address.text, mac }];
      });
      await setTunnelNeighbours(runDir, neighbours, until);
    },
  };
}

function nextHopOf(socket: NetlinkSocket, address: Parameters<typeof lookUpRoute>[1]): TunnelNextHop | undefined {
  try {
    const route = lookUpRoute(socket, address);
    return route?.link === undefined ? undefined : { link: route.link, address: route.gateway ?? address };
  } catch (thrown) {
    if (unreachable.has(errnoOf(thrown) ?? '')) return undefined;
    throw thrown;
  }
}

/** The next round finds a neighbour that the kernel has removed meanwhile, or cannot store now. */
function ask(socket: NetlinkSocket, write: (batch: Batch) => void): void {
  const batch = new Batch();
  write(batch);
  for (const error of socket.attempt(batch))
    if (error !== undefined && SeineError.from(error, 'resolve a neighbour').code !== 'REFUSED') throw error;
}
