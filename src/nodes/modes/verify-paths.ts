import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cidrAddress, type Family, type Ip } from '../../base/net/ip.ts';
import { getLink } from '../../netlink/links.ts';
import { getNeighbour } from '../../netlink/routing/neighbours.ts';
import { lookUpRoute, type Route } from '../../netlink/routing/routes.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import { type CandidatePath, DirectEcho, type DirectEchoEnds } from './direct-echo.ts';
import type { EchoRound, PathVerification } from './path-verification.ts';
import { RecentLinks } from './recent-links.ts';

/** Number of paths tested at once. */
const AT_ONCE = 32;
/** Time over which the tests of a round are spread (ms), and the longest pause between two of them. */
const SPREAD_MS = 8_000;
const PAUSE_MS_MAX = 50;
/** Interval between two calls about results (ms): each makes the node look at all its peers, and ask the kernel for a route to each. */
const NEWS_EVERY_MS = 500;
/** Time to wait for each reply (ms). */
const PATIENCE_MS = 1_000;

interface PathProbe {
  /** @throws SeineError if the test is not possible */
  test(path: CandidatePath, signal: AbortSignal): Promise<EchoRound>;
  close(): void;
}

interface VerifyPathsOptions {
  /** Consumed path by path, while tests run. */
  readonly paths: Iterable<CandidatePath>;
  /** Number of paths, which determines the pauses between tests. */
  readonly count: number;
  readonly verification: PathVerification;
  /** Called when results have changed: immediately, then in intervals while others change, and at the end. */
  readonly changed: () => void;
  readonly probe: PathProbe;
  /** Waits between tests (ms); absent: a timer. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/**
 * Tests all candidate paths once, spread over some seconds: a thousand tests in a row would delay everything else in this process, and leave
 * their garbage at once. A path that cannot be tested keeps its result.
 */
export async function verifyPaths(options: VerifyPathsOptions, signal: AbortSignal): Promise<void> {
  const { paths, count, verification, changed, probe, pause = idle } = options;
  const pauseMs = Math.min(SPREAD_MS / Math.max(count, 1), PAUSE_MS_MAX);
  const news = new ResultNews(changed);
  const running = new Set<Promise<void>>();
  let failure: { readonly thrown: unknown } | undefined;
  const test = async (path: CandidatePath): Promise<void> => {
    try {
      const round = await probe.test(path, signal);
      if (verification.note(path.peer, path.family, round)) news.add();
    } catch (thrown) {
      // Only a fault of this program ends the round.
      if (SeineError.from(thrown, 'verify a path').code === 'INVARIANT') failure = { thrown };
    }
  };
  for (const path of paths) {
    if (signal.aborted || failure) break;
    const work = test(path).finally(() => running.delete(work));
    running.add(work);
    if (running.size >= AT_ONCE) await Promise.race(running);
    else await pause(pauseMs, signal);
    news.passed(pauseMs);
  }
  news.passed(NEWS_EVERY_MS);
  await Promise.all(running);
  news.passed(NEWS_EVERY_MS);
  if (failure) throw failure.thrown;
}

/** Changes of results that `changed` is to learn of. */
class ResultNews {
  readonly #changed: () => void;
  #isWaiting = false;
  #quietMs = NEWS_EVERY_MS;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  add(): void {
    this.#isWaiting = true;
    this.passed(0);
  }

  /** Notes that time has passed (ms). */
  passed(ms: number): void {
    this.#quietMs += ms;
    if (!this.#isWaiting || this.#quietMs < NEWS_EVERY_MS) return;
    [this.#isWaiting, this.#quietMs] = [false, 0];
    this.#changed();
  }
}

/**
 * Tests paths with echo requests in this namespace. The opener closes it.
 *
 * @param gateway address of this node's gateway
 * @throws SeineError `REFUSED` without CAP_NET_RAW
 */
export function openPathProbe(gateway: (family: Family) => Ip | undefined): PathProbe {
  const echo = new DirectEcho();
  const socket = NetlinkSocket.open();
  const links = new RecentLinks({ read: (index) => getLink(socket, index), now: () => performance.now() });
  const askDirectly = async (ends: DirectEchoEnds | undefined): Promise<boolean> =>
    ends !== undefined && (await echo.ask(ends, PATIENCE_MS));
  return {
    test: async (path) => {
      const route = lookUpRoute(socket, path.transport);
      const from = gateway(path.family);
      if (!route?.source || !from) return { direct: false, transport: false };
      const routed = echo.askRouted(path.transport, PATIENCE_MS);
      const ends = endsOf(socket, links, { path, from, route });
      if (ends) {
        const [direct, transport] = await Promise.all([askDirectly(ends), routed]);
        return { direct, transport };
      }
      // The request to the transport address made the kernel resolve the next hop.
      const transport = await routed;
      return { direct: transport && (await askDirectly(endsOf(socket, links, { path, from, route }))), transport };
    },
    close: () => {
      echo.close();
      socket.close();
    },
  };
}

interface RoutedPath {
  readonly path: CandidatePath;
  readonly from: Ip;
  readonly route: Route;
}

/** Returns the ends of a request by the kernel's way to the peer's transport address; undefined while the next hop has no known MAC address. */
function endsOf(socket: NetlinkSocket, links: RecentLinks, { path, from, route }: RoutedPath): DirectEchoEnds | undefined {
  const link = route.link === undefined ? undefined : links.get(route.link);
  if (!link?.mac) return undefined;
  const nextHop = getNeighbour(socket, { link: link.index, address: route.gateway ?? path.transport })?.mac;
  return nextHop && { from, to: cidrAddress(path.network, 1n), source: link.mac, nextHop, link: link.index };
}
