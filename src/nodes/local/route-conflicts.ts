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

/** Networks asked about in one look; what there is beyond that has its turn in the next. */
const ASKED_MAX = 512;
/** Between turns of the event loop: a question takes the kernel some 20 µs. */
const ASKED_AT_ONCE = 32;
/** A route of ours that is gone for a moment is repaired meanwhile (ms). */
const CONFIRMED_AFTER_MS = 500;
/** What the kernel says of a blackhole, of what is prohibited, and of what it cannot reach; `lookUpRoute` returns nothing for the last. */
const blocked = new Set(['EINVAL', 'EACCES']);

/** A network of pods or Services that another program's rule or route leads elsewhere. */
export interface TakenWay {
  readonly network: Cidr;
  /** The address of it that was asked about. */
  readonly asked: Ip;
  /** Index of the interface that the kernel takes; undefined if it sends nothing there. */
  readonly link: number | undefined;
  /** Mark of the packets that the route is for; undefined if it is for all. */
  readonly mark?: number;
}

type FoundWay = TakenWay & Pick<WantedRoute, 'destination' | 'table'>;

interface TakenWaysOptions {
  readonly socket: NetlinkSocket;
  readonly gateway: string;
  /** What the node's own stack is known to hold; undefined while that is not known. */
  readonly held: () => ReadonlyMap<HostKey, HostEntry> | undefined;
}

/**
 * Asks the kernel which way it takes to what our routes lead to. A rule of the routing policy, a route to a smaller network or one at a
 * better metric may lead elsewhere, though every route of ours is as wanted. These belong to other programs, so they are only reported.
 */
export class TakenWays {
  readonly #options: TakenWaysOptions;
  #from = 0;

  constructor(options: TakenWaysOptions) {
    this.#options = options;
  }

  /** @throws SeineError `UNAVAILABLE` if the kernel does not answer; `CANCELLED` */
  async find(signal: AbortSignal): Promise<readonly TakenWay[]> {
    const { socket, gateway, held } = this.#options;
    const routes = [...(held()?.values() ?? [])].flatMap((entry) => (entry.kind === 'route' ? [entry.route] : []));
    const index = getLink(socket, gateway)?.index;
    if (index === undefined || routes.length === 0) return [];
    const taken: FoundWay[] = [];
    const asked = Math.min(ASKED_MAX, routes.length);
    for (let at = 0; at < asked; at++) {
      if (at % ASKED_AT_ONCE === ASKED_AT_ONCE - 1) await nextTurn(undefined, { signal });
      const route = routes[(this.#from + at) % routes.length];
      const way = route && wayTo(socket, route);
      if (way && way.link !== index) taken.push(way);
    }
    this.#from = (this.#from + asked) % routes.length;
    if (taken.length === 0) return [];
    await idle(CONFIRMED_AFTER_MS, signal);
    const there = ourRoutes(socket, taken);
    const confirmed = taken.filter((way) => there.has(placeOf(way))).map((way) => wayTo(socket, way));
    return confirmed.filter(({ link }) => link !== index);
  }
}

/** A route of ours that is not there is for the reconciler to repair and to say, be it paused. */
function ourRoutes(socket: NetlinkSocket, taken: readonly TakenWay[]): ReadonlySet<string> {
  const families = new Set(taken.map(({ network }) => network.family));
  const routes = [...families].flatMap((family) => listRoutes(socket, { family, protocol: ourProtocol }));
  return new Set(routes.map(placeOf));
}

/** Destination of a route, and its table where that is not the main one. */
function placeOf({ destination, table }: Pick<WantedRoute, 'destination' | 'table'>): string {
  return `${destination.text} ${table === externalRouting.table ? table : ''}`;
}

/** Our own table is for packets with our mark. */
function wayTo(socket: NetlinkSocket, { destination, table }: Pick<WantedRoute, 'destination' | 'table'>): FoundWay {
  const asked = exampleOf(destination);
  const mark = table === externalRouting.table ? externalRouting.mark : undefined;
  const way = { network: destination, destination, asked, ...(table === undefined ? {} : { table }), ...(mark && { mark }) };
  try {
    return { ...way, link: lookUpRoute(socket, asked, mark)?.link };
  } catch (thrown) {
    if (blocked.has(errnoOf(thrown) ?? '')) return { ...way, link: undefined };
    throw thrown;
  }
}

/** Not the first address: of the own pod network that is the node's. */
function exampleOf(network: Cidr): Ip {
  const bits = addressBits(network.family) - network.prefixLength;
  return bits < 2 ? network.network : cidrAddress(network, 2n);
}
