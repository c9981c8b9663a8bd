import type { Cidr } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { Wanted, WantedRoute } from '../../dataplane/desired/host-entries.ts';

/** Desired entries of a peer. */
export interface PeerEntries {
  /** Compiles its flows. They are not stored: a thousand peers have more than ten thousand. */
  readonly flows: () => Wanted['flows'];
  readonly routes: readonly WantedRoute[];
  /** Part of the compiler's input by which its flows send. */
  readonly sends: Pick<PeerIntent, 'direct' | 'maySendDirectly'>;
  /** Its pod networks in the union of routes to the bridge: the kernel sends to them through the bridge. */
  readonly tunnelled: readonly Cidr[];
  /** Its pod networks for which the bridge may pass packets to the gateway. */
  readonly direct: readonly Cidr[];
}

/**
 * Returns the desired entries of a peer between two modes, in their order; each has to be applied before the next.
 *
 * 1. The routes that either mode needs, and none to the bridge for a network that becomes direct. A route that both modes have with
 *    different values has the new value.
 * 2. The flows of the new mode.
 * 3. The routes of the new mode alone.
 *
 * So the bridge never passes packets to the gateway for which the kernel has a route back to the bridge: the two would exchange them until
 * their TTL ends. The last step equals `after`. Steps that change nothing are omitted.
 */
export function changeSteps(before: PeerEntries, after: PeerEntries): readonly PeerEntries[] {
  if (before.direct.length === 0 && after.direct.length === 0) return [after];
  const routes = [...routesWithout(before.routes, after.routes), ...after.routes];
  const tunnelled = without(after.tunnelled, before.direct);
  const newRoutes: PeerEntries = { ...before, routes, tunnelled };
  const direct = [...before.direct, ...without(after.direct, before.direct)];
  const newFlows: PeerEntries = { ...after, routes, tunnelled, direct };
  const isFirst = hasSameRoutes(before.routes, routes) && without(before.tunnelled, after.direct).length === before.tunnelled.length;
  const isLast = hasSameRoutes(after.routes, routes) && tunnelled.length === after.tunnelled.length;
  return [...(isFirst ? [] : [newRoutes]), ...(isLast ? [] : [newFlows]), after];
}

function without(networks: readonly Cidr[], others: readonly Cidr[]): readonly Cidr[] {
  const texts = new Set(others.map(({ text }) => text));
  return networks.filter(({ text }) => !texts.has(text));
}

function routesWithout(routes: readonly WantedRoute[], others: readonly WantedRoute[]): readonly WantedRoute[] {
  const keys = new Set(others.map(keyOf));
  return routes.filter((route) => !keys.has(keyOf(route)));
}

function hasSameRoutes(routes: readonly WantedRoute[], others: readonly WantedRoute[]): boolean {
  const texts = new Set(routes.map(textOf));
  return texts.size === new Set(others.map(textOf)).size && others.every((route) => texts.has(textOf(route)));
}

function keyOf({ destination, table, metric }: WantedRoute): string {
  return `${destination.text} ${table} ${metric}`;
}

function textOf(route: WantedRoute): string {
  return `${keyOf(route)} ${route.kind} ${route.via?.text} ${route.dev} ${route.src?.text}`;
}
