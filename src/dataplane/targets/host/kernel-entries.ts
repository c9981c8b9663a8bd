import type { IfIndex } from '../../../netlink/interface-name.ts';
import { type Route as KernelRoute, mainTable, ourProtocol } from '../../../netlink/routing/routes.ts';
import type { Rule as KernelRule } from '../../../netlink/routing/rules.ts';
import { blackholeMetric, externalRouting, loopback } from '../../pipeline/well-known.ts';
import { ordinaryMetric } from './exclusive-routes.ts';
import type { ForeignRoute, HostEntry } from './host-entry.ts';

/** Returns the entries of routes that the kernel lists. @param nameOf name of an interface */
export function* ourRoutes(routes: readonly KernelRoute[], nameOf: (link: IfIndex | undefined) => string): Generator<HostEntry> {
  for (const route of routes) {
    if (isBlackhole(route)) {
      const { destination, metric } = route;
      yield { kind: 'route', route: { destination, kind: 'blackhole', dev: loopback, metric } };
      continue;
    }
    const table = route.table === externalRouting.table ? { table: route.table } : {};
    const found = { destination: route.destination, dev: nameOf(route.link), ...table };
    const via = route.gateway ? { via: route.gateway } : {};
    const src = route.source ? { src: route.source } : {};
    const foreign = foreignOfRoute(route);
    yield { kind: 'route', route: { ...found, ...via, ...src }, ...(foreign ? { foreign } : {}) };
  }
}

/** Returns the entries of those rules that have Seine's protocol number. */
export function* ourRules(rules: readonly KernelRule[]): Generator<HostEntry> {
  for (const rule of rules) if (rule.protocol === ourProtocol) yield entryOfRule(rule);
}

export function entryOfRule({ family, priority, table, mark, unmodelled }: KernelRule): HostEntry {
  const rule = { family, priority, table, ...(mark === undefined ? {} : { mark }) };
  return { kind: 'rule', rule, ...(unmodelled ? { foreign: 'otherwise' } : {}) };
}

/** Reports whether a route is one that drops packets for which every other route of Seine's is missing. */
function isBlackhole({ kind, table, metric, mtu, source, unmodelled }: KernelRoute): boolean {
  const isPlain = mtu === undefined && source === undefined && unmodelled.length === 0;
  return kind === 'blackhole' && table === mainTable && metric === blackholeMetric && isPlain;
}

function foreignOfRoute(route: KernelRoute): ForeignRoute | undefined {
  const { table, metric, kind, mtu, nextHops, unmodelled } = route;
  const inPlace = (table === mainTable || table === externalRouting.table) && metric === ordinaryMetric[route.destination.family];
  const details = [
    ...(kind === 'unicast' ? [] : [String(kind)]),
    ...(mtu === undefined ? [] : [`mtu ${mtu}`]),
    ...nextHops.map(() => 'nexthop'),
    ...unmodelled.map((type) => `attribute ${type}`),
  ].join(' ');
  if (inPlace && details === '') return undefined;
  return { ...(inPlace ? {} : { place: { table, metric } }), ...(details === '' ? {} : { details }) };
}
