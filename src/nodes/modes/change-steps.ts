import type { Wanted, WantedRoute } from '../../dataplane/desired/host-entries.ts';

/**
 * Returns the desired entries of a peer between two modes, in their order; each has to be applied before the next.
 *
 * 1. The routes that either mode needs. A route that both have with different values has the new value.
 * 2. The flows of the new mode.
 * 3. The routes of the new mode alone.
 *
 * So the bridge never passes packets to the gateway for which the kernel has a route back to the bridge: the two would exchange them until
 * their TTL ends. The last step equals `after`. Steps that change nothing are omitted.
 */
export function changeSteps(before: Wanted, after: Wanted): readonly Wanted[] {
  const routes = [...routesWithout(before, after), ...after.routes];
  const bothRoutes = hasSameRoutes(before, routes) ? [] : [{ ...after, flows: before.flows, routes }];
  const newFlows = hasSameRoutes(after, routes) ? [] : [{ ...after, routes }];
  return [...bothRoutes, ...newFlows, after];
}

function routesWithout({ routes }: Wanted, { routes: others }: Wanted): readonly WantedRoute[] {
  const keys = new Set(others.map(keyOf));
  return routes.filter((route) => !keys.has(keyOf(route)));
}

function hasSameRoutes({ routes }: Wanted, others: readonly WantedRoute[]): boolean {
  const texts = new Set(routes.map(textOf));
  return texts.size === others.length && others.every((route) => texts.has(textOf(route)));
}

function keyOf({ destination, table }: WantedRoute): string {
  return `${destination.text} ${table}`;
}

function textOf(route: WantedRoute): string {
  return `${keyOf(route)} ${route.via?.text} ${route.dev} ${route.src?.text}`;
}
