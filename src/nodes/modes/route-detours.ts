import { setImmediate as nextLoopTurn } from 'node:timers/promises';
import { type Cidr, cidrOf } from '../../base/net/ip.ts';
import type { HostEntry, HostKey } from '../../dataplane/targets/host/host-entry.ts';
import { getLink } from '../../netlink/links.ts';
import { listRoutesOffThread, mainTable, ourProtocol, type Route } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Route of another program that takes packets for a part of a network to which Seine has a route. */
export interface RouteDetour {
  /** Destination of Seine's route. */
  readonly network: Cidr;
  /** Name of the interface of Seine's route. */
  readonly dev: string;
  /** Destination of the other route: a part of the network. */
  readonly part: Cidr;
  /** `rtm_protocol` of the other route. */
  readonly protocol: number;
}

/** Route of Seine's, with the index of its interface; undefined if there is none. */
interface OwnRoute {
  readonly network: Cidr;
  readonly dev: string;
  readonly link: number | undefined;
}

/** Routes of other programs that are compared without a break: a host may have the routes of the whole Internet. */
const SLICE = 4_096;

interface RouteDetoursOptions {
  /** Opens a socket for one reading: while a thread reads from it, no other call may use it. */
  readonly open: () => NetlinkSocket;
  /** Returns the known content of the node's network stack; undefined while unknown. */
  readonly held: () => ReadonlyMap<HostKey, HostEntry> | undefined;
}

/**
 * Finds routes of other programs to parts of the networks to which Seine has routes. The kernel prefers the longer prefix, without an error
 * and without an event that names Seine's route. The lookup of one address (`RouteConflicts`) does not find a route to another part.
 *
 * @throws SeineError `UNAVAILABLE` if the kernel does not answer
 */
export async function findDetours({ open, held }: RouteDetoursOptions): Promise<readonly RouteDetour[]> {
  const socket = open();
  try {
    const own = ownRoutes(socket, held());
    const detourBy = detourFinder(own);
    const found: RouteDetour[] = [];
    for (const family of new Set(own.map(({ network }) => network.family)))
      for (const [at, route] of (await listRoutesOffThread(socket, { family, table: mainTable })).entries()) {
        if (at % SLICE === SLICE - 1) await nextLoopTurn();
        const detour = detourBy(route);
        if (detour) found.push(detour);
      }
    return found;
  } finally {
    socket.close();
  }
}

function ownRoutes(socket: NetlinkSocket, held: ReadonlyMap<HostKey, HostEntry> = new Map()): readonly OwnRoute[] {
  const indexes = new Map<string, number | undefined>();
  const own: OwnRoute[] = [];
  for (const entry of held.values()) {
    if (entry.kind !== 'route' || entry.route.kind === 'blackhole' || entry.route.table !== undefined) continue;
    const { destination: network, dev } = entry.route;
    if (!indexes.has(dev)) indexes.set(dev, getLink(socket, dev)?.index);
    own.push({ network, dev, link: indexes.get(dev) });
  }
  return own;
}

/** Returns a function that finds out whether a route takes a part of one of Seine's routes to another interface. */
export function detourFinder(own: readonly OwnRoute[]): (other: Route) => RouteDetour | undefined {
  const byNetwork = new Map(own.map((route) => [route.network.text, route]));
  const lengths = [...new Set(own.map(({ network }) => network.prefixLength))].toSorted((a, b) => b - a);
  return ({ destination: part, protocol, link }) => {
    // A route with the destination of one of Seine's is a conflict of routes, not a detour.
    if (protocol === ourProtocol || byNetwork.has(part.text)) return undefined;
    const shorter = lengths.filter((length) => length < part.prefixLength).map((length) => cidrOf(part.network, length).text);
    const taken = shorter.map((text) => byNetwork.get(text)).find((route) => route !== undefined);
    if (!taken || taken.link === undefined || taken.link === link) return undefined;
    return { network: taken.network, dev: taken.dev, part, protocol };
  };
}
