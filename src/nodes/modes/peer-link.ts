import type { Ip } from '../../base/net/ip.ts';
import { errnoOf } from '../../netlink/errno.ts';
import { lookUpRoute, type Route } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { RecentLinks } from './recent-links.ts';

/** Errors of a lookup whose result is a blackhole or a prohibited destination. */
const blocked = new Set(['EINVAL', 'EACCES']);

/**
 * Returns the name of the interface by which the kernel reaches an address without a router between; undefined if there is one, or no
 * route. Prefixes of the node's own addresses do not decide: nodes with /32 addresses reach each other through a router.
 *
 * @throws SeineError `UNAVAILABLE` if the kernel does not answer
 */
export function linkTo(socket: NetlinkSocket, links: Pick<RecentLinks, 'get'>, address: Ip): string | undefined {
  const route = routeTo(socket, address);
  if (route === undefined || route.kind !== 'unicast' || route.gateway !== undefined || route.link === undefined) return undefined;
  return links.get(route.link)?.name;
}

function routeTo(socket: NetlinkSocket, address: Ip): Route | undefined {
  try {
    return lookUpRoute(socket, address);
  } catch (thrown) {
    if (blocked.has(errnoOf(thrown) ?? '')) return undefined;
    throw thrown;
  }
}
