import { setImmediate as nextTurn } from 'node:timers/promises';
import { idle } from '../../base/async/pause.ts';
import { addressBits, type Cidr, cidrAddress, type Ip } from '../../base/net/ip.ts';
import type { WantedRoute } from '../../dataplane/desired/host-entries.ts';
import { externalRouting } from '../../dataplane/pipeline/well-known.ts';
import type { HostEntry, HostKey } from '../../dataplane/targets/host/host-entry.ts';
import { errnoOf } from '../../netlink/errno.ts';
import { getLink } from '../../netlink/links.ts';
import { listRoutes, lookUpRoute, ourProtocol } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Maximum number of networks looked up in one check; further ones are next in the following check. */
const ASKED_MAX = 512;
/** Number of lookups between turns of the event loop: one takes the kernel about 20 µs. */
const ASKED_AT_ONCE = 32;
/** Delay before a conflict is confirmed (ms): a route of Seine's that is missing for a moment is repaired meanwhile. */
const CONFIRMED_AFTER_MS = 500;
/** Errors for blackhole, prohibited and unreachable destinations; for the last `lookUpRoute` returns nothing. */
const blocked = new Set(['EINVAL', 'EACCES']);

/** Network of pods or Services that another program's rule or route sends to another interface than Seine's route. */
export interface RouteConflict {
  readonly network: Cidr;
  /** Address of it that was looked up. */
  readonly asked: Ip;
  /** Index of the interface that the kernel uses; undefined if it sends nothing there. */
  readonly link: number | undefined;
  /** Name of the interface of Seine's route. */
  readonly dev: string;
  /** Mark of the packets that the route is for; undefined if it is for all. */
  readonly mark?: number;
}

type FoundConflict = RouteConflict & Pick<WantedRoute, 'destination' | 'table'>;

interface RouteConflictsOptions {
  readonly socket: NetlinkSocket;
  /** Returns the known content of the node's network stack; undefined while unknown. */
  readonly held: () => ReadonlyMap<HostKey, HostEntry> | undefined;
}

/**
 * Looks up in the kernel which way it takes to the destinations of Seine's routes. A rule of the routing policy, a route to a smaller
 * network or one with a better metric may take precedence, although every route of Seine's is as desired. These belong to other programs,
 * so they are only reported.
 */
export class RouteConflicts {
  readonly #options: RouteConflictsOptions;
  #from = 0;

  constructor(options: RouteConflictsOptions) {
    this.#options = options;
  }

  /** @throws SeineError `UNAVAILABLE` if the kernel does not answer; `CANCELLED` */
  async find(signal: AbortSignal): Promise<readonly RouteConflict[]> {
    const { socket, held } = this.#options;
    const routes = [...(held()?.values() ?? [])].flatMap((entry) =>
      entry.kind === 'route' && entry.route.kind !== 'blackhole' ? [entry.route] : [],
    );
    const indexOf = indexesOf(socket, routes);
    if (indexOf.size === 0) return [];
    const isElsewhere = ({ dev, link }: RouteConflict): boolean => indexOf.has(dev) && link !== indexOf.get(dev);
    const taken: FoundConflict[] = [];
    const asked = Math.min(ASKED_MAX, routes.length);
    for (let at = 0; at < asked; at++) {
      if (at % ASKED_AT_ONCE === ASKED_AT_ONCE - 1) await nextTurn(undefined, { signal });
      const route = routes[(this.#from + at) % routes.length];
      const way = route && routeTo(socket, route);
      if (way && isElsewhere(way)) taken.push(way);
    }
    this.#from = (this.#from + asked) % routes.length;
    if (taken.length === 0) return [];
    await idle(CONFIRMED_AFTER_MS, signal);
    const there = ourRoutes(socket, taken);
    const confirmed = taken.filter((way) => there.has(placeOf(way))).map((way) => routeTo(socket, way));
    return confirmed.filter(isElsewhere);
  }
}

/** Returns the indexes of the routes' interfaces, by name. One that does not exist has none, and its routes are not compared. */
function indexesOf(socket: NetlinkSocket, routes: readonly WantedRoute[]): ReadonlyMap<string, number> {
  const names = [...new Set(routes.map(({ dev }) => dev))];
  return new Map(
    names.flatMap((name) => {
      const index = getLink(socket, name)?.index;
      return index === undefined ? [] : [[name, index] as const];
    }),
  );
}

/** Returns the conflicts whose own route is present. A missing route is repaired and reported by the reconciler, even if paused. */
function ourRoutes(socket: NetlinkSocket, taken: readonly RouteConflict[]): ReadonlySet<string> {
  const families = new Set(taken.map(({ network }) => network.family));
  const routes = [...families].flatMap((family) => listRoutes(socket, { family, protocol: ourProtocol }));
  return new Set(routes.map(placeOf));
}

/** Returns the destination of a route, and its table where that is not the main one. */
function placeOf({ destination, table }: Pick<WantedRoute, 'destination' | 'table'>): string {
  return `${destination.text} ${table === externalRouting.table ? table : ''}`;
}

/** Looks up a route. Seine's own table is for packets with Seine's mark. */
function routeTo(socket: NetlinkSocket, { destination, table, dev }: Pick<WantedRoute, 'destination' | 'table' | 'dev'>): FoundConflict {
  const asked = exampleOf(destination);
  const mark = table === externalRouting.table ? externalRouting.mark : undefined;
  const way = { network: destination, destination, asked, dev, ...(table === undefined ? {} : { table }), ...(mark && { mark }) };
  try {
    return { ...way, link: lookUpRoute(socket, asked, mark)?.link };
  } catch (thrown) {
    if (blocked.has(errnoOf(thrown) ?? '')) return { ...way, link: undefined };
    throw thrown;
  }
}

/** Returns an address of the network. Not the first one: in the own pod network that is the node's. */
function exampleOf(network: Cidr): Ip {
  const bits = addressBits(network.family) - network.prefixLength;
  return bits < 2 ? network.network : cidrAddress(network, 2n);
}
