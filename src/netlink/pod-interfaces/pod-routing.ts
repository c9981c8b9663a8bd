import { type Cidr, cidrContains, cidrOf, type Family, type Ip, ipFromValue } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import { errnoOf } from '../errno.ts';
import type { IfIndex } from '../interface-name.ts';
import { changeLink } from '../links.ts';
import { Batch } from '../message.ts';
import { deleteAddress, replaceAddress } from '../routing/addresses.ts';
import { replaceNeighbour } from '../routing/neighbours.ts';
import { addRoute, type NewRoute } from '../routing/routes.ts';
import { addRule } from '../routing/rules.ts';
import type { NetlinkSocket } from '../socket.ts';

export interface PodRouting {
  readonly addresses: readonly { readonly address: Ip; readonly prefixLength: number }[];
  /** Gateways of a default route each. With a MAC the pod never resolves the gateway. */
  readonly gateways: readonly { readonly address: Ip; readonly mac?: Mac }[];
  /** Additional routes; without gateway, the destination is on the link. */
  readonly routes?: readonly { readonly destination: Cidr; readonly gateway?: Ip | undefined }[];
}

/** Number of the interface's own routing table, by family; absent if its routes are in the main one. */
export type RouteTables = Readonly<Partial<Record<Family, number>>>;

/**
 * Sets the addresses and routes of a pod's interface, and brings it up.
 *
 * If the pod already has a default route, by an earlier interface, that one stays the pod's. Ours gets a table of its own, which rules
 * select by source address: replies leave by the interface of the request. In the main table its routes have a metric, so that a socket
 * bound to the interface finds them and no other traffic uses them.
 *
 * @param pod a socket in the pod's namespace
 * @throws SeineError `REFUSED`
 */
export function setUpRouting(pod: NetlinkSocket, link: IfIndex, routing: PodRouting): RouteTables {
  const table = FIRST_TABLE + link;
  const taken = setUpAsFirst(pod, link, routing);
  const batch = new Batch();
  for (const family of taken) moveToOwnTable(batch, link, { routing, family, table });
  for (const { destination, gateway } of routing.routes ?? []) {
    const route = { ...routeBy(link, destination, gateway, routing), protocol: bootProtocol };
    if (!taken.has(destination.family)) addRoute(batch, route);
    else for (const place of placesOf(table)) addRoute(batch, { ...route, ...place });
  }
  if (batch.entries.length > 0) pod.transact(batch);
  addRules(pod, { routing, taken, table });
  return Object.fromEntries([...taken].map((family) => [family, table]));
}

/** @returns the families that already have a default route; their addresses are set all the same */
function setUpAsFirst(pod: NetlinkSocket, link: IfIndex, routing: PodRouting): ReadonlySet<Family> {
  const { addresses, gateways } = routing;
  const batch = new Batch();
  changeLink(batch, 'lo', { state: 'up' });
  changeLink(batch, link, { state: 'up' });
  for (const { address, prefixLength } of addresses) replaceAddress(batch, { link, address, prefixLength });
  for (const { address, mac } of gateways) if (mac) replaceNeighbour(batch, { link, address, mac });
  const firstRoute = batch.entries.length;
  for (const { address } of gateways) addRoute(batch, { ...routeBy(link, everything(address), address, routing), protocol: bootProtocol });
  const taken = new Set<Family>();
  for (const [at, failure] of pod.attempt(batch).entries()) {
    if (failure === undefined) continue;
    const gateway = gateways[at - firstRoute];
    if (!gateway || errnoOf(failure) !== 'EEXIST') throw failure;
    taken.add(gateway.address.family);
  }
  return taken;
}

/**
 * Restores the missing addresses and routes of a pod's interface; additional ones stay.
 *
 * @param tables as `setUpRouting` returned them
 * @throws SeineError `REFUSED`
 */
export function restoreRouting(pod: NetlinkSocket, link: IfIndex, routing: PodRouting, tables: RouteTables): void {
  const taken = new Set<Family>((['ipv4', 'ipv6'] as const).filter((family) => tables[family] !== undefined));
  const batch = new Batch();
  for (const { address, prefixLength } of routing.addresses)
    replaceAddress(batch, { link, address, prefixLength, ...(taken.has(address.family) ? { prefixRoute: 'noPrefixRoute' } : {}) });
  const add = (destination: Cidr, gateway: Ip | undefined, more: Partial<NewRoute> = {}): void => {
    const route = { ...routeBy(link, destination, gateway, routing), ...more, protocol: bootProtocol };
    const table = tables[destination.family];
    for (const place of table === undefined ? [{}] : placesOf(table)) addRoute(batch, { ...route, ...place });
  };
  for (const { address, prefixLength } of routing.addresses)
    if (taken.has(address.family)) add(cidrOf(address, prefixLength), undefined, { source: address });
  for (const { address } of routing.gateways) add(everything(address), address);
  for (const { destination, gateway } of routing.routes ?? []) add(destination, gateway);
  for (const failure of pod.attempt(batch)) if (failure !== undefined && errnoOf(failure) !== 'EEXIST') throw failure;
  for (const [family, table] of Object.entries(tables)) addRules(pod, { routing, taken: new Set([family as Family]), table });
}

/** The routes in the main table are for sockets bound to the interface, with a higher metric than the others. */
function placesOf(table: number): readonly Pick<NewRoute, 'table' | 'metric'>[] {
  return [{ table }, { metric: table }];
}

interface Move {
  readonly routing: PodRouting;
  readonly family: Family;
  readonly table: number;
}

function moveToOwnTable(batch: Batch, link: IfIndex, { routing, family, table }: Move): void {
  for (const { address, prefixLength } of routing.addresses.filter((entry) => entry.address.family === family)) {
    // The kernel's route to the network is deleted with the address; the main table may have another interface's.
    deleteAddress(batch, { link, address, prefixLength });
    replaceAddress(batch, { link, address, prefixLength, prefixRoute: 'noPrefixRoute' });
    const network = { destination: cidrOf(address, prefixLength), link, source: address, protocol: bootProtocol };
    for (const place of placesOf(table)) addRoute(batch, { ...network, ...place });
  }
  for (const { address } of routing.gateways.filter((gateway) => gateway.address.family === family)) {
    const route = { ...routeBy(link, everything(address), address, routing), protocol: bootProtocol };
    for (const place of placesOf(table)) addRoute(batch, { ...route, ...place });
  }
}

/** The kernel does not delete rules with an interface; an existing equal rule is fine. */
function addRules(pod: NetlinkSocket, { routing, taken, table }: { routing: PodRouting; taken: ReadonlySet<Family>; table: number }): void {
  const batch = new Batch();
  for (const { address } of routing.addresses)
    if (taken.has(address.family)) addRule(batch, { family: address.family, source: address, table, priority: RULE_PRIORITY });
  if (batch.entries.length === 0) return;
  for (const failure of pod.attempt(batch)) if (failure !== undefined && errnoOf(failure) !== 'EEXIST') throw failure;
}

function routeBy(link: IfIndex, destination: Cidr, gateway: Ip | undefined, { addresses }: PodRouting): NewRoute {
  const near = addresses.some(({ address, prefixLength }) => gateway && cidrContains(cidrOf(address, prefixLength), gateway));
  return { destination, gateway, link, onLink: gateway !== undefined && !near };
}

function everything({ family }: Ip): Cidr {
  return cidrOf(ipFromValue(family, 0n), 0);
}

/**
 * First table number: above the 255 that are reserved for names, and as a metric after the 1024 of IPv6; numbers of interfaces in a pod are
 * small.
 */
const FIRST_TABLE = 10_000;
/** Priority before the main table's 32766, after the usual priorities of administrators. */
const RULE_PRIORITY = 20_000;
/** `RTPROT_BOOT`, the default of `ip route add`: inside the pod, routes look like those of other plugins. */
const bootProtocol = 3;
