import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Family } from '../../../base/net/ip.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { Batch } from '../../../netlink/message.ts';
import { addRoute, listRoutesOffThread, mainTable, type NewRoute, type Route, replaceRoute } from '../../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';

/** Metric that the kernel gives to routes without one, by family. */
export const ordinaryMetric: Readonly<Record<Family, number>> = { ipv4: 0, ipv6: 1024 };

/** Names of `rtm_protocol` for messages, as in /etc/iproute2/rt_protos. */
const protocolNames = new Map([
  [2, 'kernel'],
  [3, 'boot'],
  [4, 'static'],
  [9, 'ra'],
  [12, 'bird'],
  [16, 'dhcp'],
  [18, 'keepalived'],
  [186, 'bgp'],
  [188, 'ospf'],
  [196, 'zebra'],
]);

/** Returns the name of a route's protocol for messages; a number if it has none. */
export function protocolName(protocol: number): string {
  return protocolNames.get(protocol) ?? String(protocol);
}

type ExclusiveRoute = NewRoute & { readonly protocol: number };

/**
 * Adds routes of the main table that never replace another program's. One of Seine's with the same destination is replaced; the kernel's
 * own replacement would take the first route of that destination, whatever its protocol.
 *
 * @throws SeineError `REFUSED` if another program has a route to one of the destinations, with `destination` and `protocol` in the context.
 *   The other routes are added. `UNAVAILABLE` if the interface is down
 */
export async function addExclusiveRoutes(socket: NetlinkSocket, routes: readonly ExclusiveRoute[]): Promise<void> {
  if (routes.length === 0) return;
  const batch = new Batch();
  for (const route of routes) addRoute(batch, route);
  const errors = await socket.attemptOffThread(batch);
  const present: ExclusiveRoute[] = [];
  for (const [at, route] of routes.entries()) {
    const error = errors[at];
    // Its creator sets the interface up in a moment, or the administrator does.
    if (error && errnoOf(error) === 'ENETDOWN')
      throw new SeineError('UNAVAILABLE', `the interface of the route to ${route.destination.text} is down`, { cause: error });
    if (error && errnoOf(error) !== 'EEXIST') throw error;
    if (error) present.push(route);
  }
  if (present.length > 0) await replaceOwn(socket, present);
}

async function replaceOwn(socket: NetlinkSocket, routes: readonly ExclusiveRoute[]): Promise<void> {
  const conflicts = await conflictingRoutes(socket, routes);
  const batch = new Batch();
  for (const route of routes) if (!conflicts.has(route.destination.text)) replaceRoute(batch, route);
  if (batch.entries.length > 0) await socket.transactOffThread(batch);
  for (const [destination, { protocol }] of conflicts) {
    const name = protocolName(protocol);
    throw new SeineError('REFUSED', `a route to ${destination} belongs to another program (protocol ${name})`, {
      context: { conflict: 'route', destination, protocol: name },
    });
  }
}

/** Returns routes of other programs to these destinations, with the metric that Seine's would have. */
async function conflictingRoutes(socket: NetlinkSocket, routes: readonly ExclusiveRoute[]): Promise<ReadonlyMap<string, Route>> {
  const metricOf = ({ destination, metric = ordinaryMetric[destination.family] }: Pick<NewRoute, 'destination' | 'metric'>): number =>
    metric;
  const own = new Map(routes.map((route) => [`${route.destination.text} ${metricOf(route)}`, route.protocol]));
  const conflicts = new Map<string, Route>();
  for (const family of new Set(routes.map(({ destination }) => destination.family)))
    for (const route of await listRoutesOffThread(socket, { family, table: mainTable })) {
      const protocol = own.get(`${route.destination.text} ${metricOf(route)}`);
      if (protocol !== undefined && route.protocol !== protocol) conflicts.set(route.destination.text, route);
    }
  return conflicts;
}
