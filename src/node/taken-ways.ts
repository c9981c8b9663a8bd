import { setImmediate as nextTurn } from 'node:timers/promises';
import { idle } from '../async/pause.ts';
import { addressBits, type Cidr, cidrAddress, type Ip } from '../net/ip.ts';
import { errnoOf } from '../netlink/errno.ts';
import { getLink } from '../netlink/links.ts';
import { listRoutes, lookUpRoute, ourProtocol } from '../netlink/routes.ts';
import type { NetlinkSocket } from '../netlink/socket.ts';
import type { HostEntry, HostKey } from '../reconcile/host-entry.ts';

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
}

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
    const networks = [...(held()?.values() ?? [])].flatMap((entry) => (entry.kind === 'route' ? [entry.route.destination] : []));
    const index = getLink(socket, gateway)?.index;
    if (index === undefined || networks.length === 0) return [];
    const taken: TakenWay[] = [];
    const asked = Math.min(ASKED_MAX, networks.length);
    for (let at = 0; at < asked; at++) {
      if (at % ASKED_AT_ONCE === ASKED_AT_ONCE - 1) await nextTurn(undefined, { signal });
      const network = networks[(this.#from + at) % networks.length];
      const way = network && wayTo(socket, network);
      if (way && way.link !== index) taken.push(way);
    }
    this.#from = (this.#from + asked) % networks.length;
    if (taken.length === 0) return [];
    await idle(CONFIRMED_AFTER_MS, signal);
    const there = ourRoutes(socket, taken);
    const confirmed = taken.filter(({ network }) => there.has(network.text)).map(({ network }) => wayTo(socket, network));
    return confirmed.filter(({ link }) => link !== index);
  }
}

/** A route of ours that is not there is for the reconciler to repair and to say, be it paused. */
function ourRoutes(socket: NetlinkSocket, taken: readonly TakenWay[]): ReadonlySet<string> {
  const families = new Set(taken.map(({ network }) => network.family));
  const routes = [...families].flatMap((family) => listRoutes(socket, { family, protocol: ourProtocol }));
  return new Set(routes.map(({ destination }) => destination.text));
}

function wayTo(socket: NetlinkSocket, network: Cidr): TakenWay {
  const asked = exampleOf(network);
  try {
    return { network, asked, link: lookUpRoute(socket, asked)?.link };
  } catch (thrown) {
    if (blocked.has(errnoOf(thrown) ?? '')) return { network, asked, link: undefined };
    throw thrown;
  }
}

/** Not the first address: of the own pod network that is the node's. */
function exampleOf(network: Cidr): Ip {
  const bits = addressBits(network.family) - network.prefixLength;
  return bits < 2 ? network.network : cidrAddress(network, 2n);
}
