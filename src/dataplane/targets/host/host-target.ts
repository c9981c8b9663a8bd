import { setImmediate as nextTurn } from 'node:timers/promises';
import { Turn } from '../../../base/async/turn.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { type Cidr, type Family, parseIp } from '../../../base/net/ip.ts';
import { parseMac } from '../../../base/net/mac.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import type { IfIndex } from '../../../netlink/interface-name.ts';
import { getLinkOffThread, type Link } from '../../../netlink/links.ts';
import { Batch } from '../../../netlink/message.ts';
import type { NetworkNamespace } from '../../../netlink/namespace.ts';
import { deleteAddress, listAddressesOffThread, replaceAddress } from '../../../netlink/routing/addresses.ts';
import { deleteNeighbour, listNeighboursOffThread, type Neighbour, replaceNeighbour } from '../../../netlink/routing/neighbours.ts';
import {
  deleteRoute,
  type Route as KernelRoute,
  listRoutesOffThread,
  type NewRoute,
  ourProtocol,
  replaceRoute,
} from '../../../netlink/routing/routes.ts';
import { addRule, deleteListedRule, deleteRule, listRulesOffThread } from '../../../netlink/routing/rules.ts';
import { NetlinkSocket } from '../../../netlink/socket.ts';
import type { WantedRoute } from '../../desired/host-entries.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import { addExclusiveRoutes } from './exclusive-routes.ts';
import { changeGateway } from './gateway-link.ts';
import { type HostEntry, type HostKey, inOrder, keyOf, routeOfKey, ruleOfKey, sameHostEntry } from './host-entry.ts';
import { entryOfRule, ourRoutes, ourRules } from './kernel-entries.ts';

const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Number of entries read between yields to the event loop: a millisecond of work, without the kernel's own lists. */
const CHECK_SLICE = 500;
/** Number of changes encoded at once, for the same reason. */
const CHANGE_SLICE = 100;
/** Placeholder address: a neighbour is removed by its IP address. */
const noMac = parseMac('00:00:00:00:00:00');

/** Errors of deletions that mean that the entry no longer exists: these count as success. */
const alreadyGone = new Set(['ENOENT', 'ESRCH', 'EADDRNOTAVAIL', 'ENODEV']);

interface HostTargetOptions {
  readonly namespace?: NetworkNamespace;
  readonly beforeRoutes?: () => Promise<void>;
}

/**
 * Target for Seine's part of the node's network stack: the gateway interface, its addresses and permanent neighbours, and routes and rules
 * with Seine's protocol number.
 *
 * The kernel handles each message separately, so a refused plan may be applied in part; every addition can be repeated. A route replaces a
 * foreign one with the same destination and metric, because the kernel can have only one, unless it is exclusive (`exclusive-routes.ts`).
 *
 * All calls are made off the main thread: reading thousands of peers takes long, and they need the kernel's RTNL lock, which is held for 16
 * ms while a pod's interface is removed.
 */
export class HostTarget implements Target<HostKey, HostEntry> {
  readonly #gateway: string;
  /** Sockets for reading; each serves one call at a time. */
  readonly #looks: Turn<NetlinkSocket>;
  readonly #changes: Turn<NetlinkSocket>;
  readonly #beforeRoutes: () => Promise<void>;
  /** Index of the gateway, until it turns out to be another interface. */
  #index: IfIndex | undefined;

  /**
   * @param gateway interface whose addresses and permanent neighbours all belong to Seine
   * @param options.namespace of the interface; the caller's own if omitted
   * @param options.beforeRoutes waits until the switch is ready for a change of routes; absent if it does not use them
   */
  constructor(gateway: string, { namespace, beforeRoutes = () => Promise.resolve() }: HostTargetOptions = {}) {
    this.#gateway = gateway;
    this.#beforeRoutes = beforeRoutes;
    this.#looks = new Turn(NetlinkSocket.open(namespace && { namespace }));
    this.#changes = new Turn(NetlinkSocket.open(namespace && { namespace }));
  }

  /** Netlink port by which the kernel's events identify changes made here. */
  get port(): number {
    return this.#changes.thing.port;
  }

  /** Waits until no call is in progress. */
  async close(): Promise<void> {
    for (const turn of [this.#looks, this.#changes]) await turn.take(async (socket) => socket.close());
  }

  observe(): Promise<Map<HostKey, HostEntry>> {
    return this.#looks.take(async (socket) => {
      const link = await getLinkOffThread(socket, this.#gateway);
      this.#index = link?.index;
      const held = new Map<HostKey, HostEntry>();
      for await (const entries of this.#observed(socket, link)) await keep(held, entries);
      return held;
    });
  }

  apply({ put, remove }: Plan<HostKey, HostEntry>): Promise<void> {
    return this.#changes.take(async (socket) => {
      const index = (this.#index ??= await this.#find(socket));
      try {
        await this.#change(socket, { put, remove }, index);
      } catch (thrown) {
        this.#index = undefined;
        if ((await this.#find(socket)) === index) throw thrown;
        throw new SeineError('UNAVAILABLE', `${this.#gateway} is another interface now`, { cause: thrown });
      }
    });
  }

  async #find(socket: NetlinkSocket): Promise<IfIndex> {
    const link = await getLinkOffThread(socket, this.#gateway);
    if (link === undefined) throw new SeineError('UNAVAILABLE', `there is no interface ${this.#gateway} yet`);
    return link.index;
  }

  async #change(socket: NetlinkSocket, { put, remove }: Plan<HostKey, HostEntry>, index: IfIndex): Promise<void> {
    const addresses = hasAddress(remove) || hasAddress(put.keys()) ? await this.#addresses(socket, index) : [];
    const removals = inOrder(this.#named(remove, addresses)).toReversed();
    // Addresses go first; removing one may remove others of its network. Other entries are removed only after their replacement is present:
    // neighbouring routes may be merged into one, or one split.
    const first = removals.filter(({ kind }) => kind === 'address');
    await this.#remove(socket, [...first, ...displaced(put, addresses)], index);
    const additions = inOrder(put.values());
    for (const entry of additions) if (entry.kind === 'link') await changeGateway(socket, entry.link);
    const { indexOf, missing } = await this.#indexesOf(socket, additions, index);
    const possible = missing.size === 0 ? additions : additions.filter((entry) => entry.kind !== 'route' || !missing.has(entry.route.dev));
    const replaceable = possible.filter((entry) => entry.kind !== 'rule' && !isExclusive(entry));
    await this.#inParts(replaceable, async (part) => {
      const batch = new Batch();
      for (const entry of part) this.#put(batch, entry, index, indexOf);
      if (batch.entries.length > 0) await socket.transactOffThread(batch);
    });
    await this.#inParts(possible.filter(isExclusive), (part) =>
      addExclusiveRoutes(
        socket,
        part.map(({ route }) => newRoute(route, indexOf)),
      ),
    );
    await addRules(socket, additions);
    // A removed route may be replaced by one over that interface.
    for (const dev of missing) throw new SeineError('UNAVAILABLE', `there is no interface ${dev} yet`);
    const others = removals.filter(({ kind }) => kind !== 'address');
    await this.#inParts(others, (part) => this.#remove(socket, part, index));
  }

  /** Makes changes in their order, a few at a time. Routes of the two families are separate changes. */
  async #inParts<T extends HostEntry>(entries: readonly T[], change: (part: readonly T[]) => Promise<void>): Promise<void> {
    for (const group of byFamilyOfRoute(entries)) {
      if (group[0]?.kind === 'route') await this.#beforeRoutes();
      for (const slice of slices(group)) await change(slice);
    }
  }

  /** Returns a function from the name of a route's interface to its index, and the names of those that do not exist. */
  async #indexesOf(
    socket: NetlinkSocket,
    entries: readonly HostEntry[],
    gateway: IfIndex,
  ): Promise<{ readonly indexOf: (dev: string) => IfIndex; readonly missing: ReadonlySet<string> }> {
    const indexes = new Map([[this.#gateway, gateway]]);
    const missing = new Set<string>();
    for (const entry of entries) {
      if (entry.kind !== 'route' || entry.route.kind === 'blackhole' || indexes.has(entry.route.dev)) continue;
      const link = await getLinkOffThread(socket, entry.route.dev);
      if (link === undefined) missing.add(entry.route.dev);
      else indexes.set(entry.route.dev, link.index);
    }
    return { indexOf: (dev) => indexes.get(dev) ?? gateway, missing };
  }

  async *#observed(socket: NetlinkSocket, link: Link | undefined): AsyncGenerator<Iterable<HostEntry>> {
    if (link) {
      yield this.#gatewayItself(link);
      yield await this.#addresses(socket, link.index);
      for (const family of families) yield this.#ourNeighbours(await listNeighboursOffThread(socket, { family, link: link.index }));
    }
    for (const family of families) {
      const routes = await listRoutesOffThread(socket, { family, protocol: ourProtocol });
      yield ourRoutes(routes, await this.#namesOf(socket, routes, link));
    }
    for (const family of families) yield ourRules(await listRulesOffThread(socket, family));
  }

  /** Entry of the gateway link. An interface that is down, without ARP, or a port of another bridge does not match any desired entry. */
  *#gatewayItself({ state, arp, master, mtu, mac }: Link): Generator<HostEntry> {
    if (state === 'up' && arp === 'on' && master === undefined && mac !== undefined)
      yield { kind: 'link', link: { name: this.#gateway, mtu, mac } };
  }

  *#ourNeighbours(neighbours: readonly Neighbour[]): Generator<HostEntry> {
    for (const { address, mac, state } of neighbours)
      if (state === 'permanent' && mac) yield { kind: 'neighbour', neighbour: { dev: this.#gateway, ip: address, mac } };
  }

  /** Returns the names of the routes' interfaces: almost all are the gateway. One that no longer exists compares unequal to every other. */
  async #namesOf(
    socket: NetlinkSocket,
    routes: readonly KernelRoute[],
    gateway: Link | undefined,
  ): Promise<(link: IfIndex | undefined) => string> {
    const names = new Map<IfIndex | undefined, string>(gateway ? [[gateway.index, this.#gateway]] : []);
    for (const { link } of routes) {
      if (names.has(link)) continue;
      const other = link === undefined ? undefined : await getLinkOffThread(socket, link);
      names.set(link, other?.name ?? `#${link}`);
    }
    return (link) => names.get(link) ?? `#${link}`;
  }

  async #addresses(socket: NetlinkSocket, link: IfIndex): Promise<AddressEntry[]> {
    const dev = this.#gateway;
    const all = await listAddressesOffThread(socket, { link });
    const global = all.filter(({ scope }) => scope === 'global');
    return global.map(({ address, prefixLength }) => ({ kind: 'address', address: { dev, ip: address, prefixLength } }));
  }

  /**
   * Returns the entries of these keys as a removal has to name them: an address with the prefix length in the kernel, others by the key
   * alone. This avoids reading thousands of peers' routes for each removal.
   */
  #named(keys: ReadonlySet<HostKey>, addresses: readonly AddressEntry[]): HostEntry[] {
    const dev = this.#gateway;
    const named: HostEntry[] = [];
    for (const key of keys) {
      const [kind, rest] = [key.slice(0, key.indexOf('/')), key.slice(key.indexOf('/') + 1)];
      if (kind === 'route') named.push(routeEntry(key, dev));
      if (kind === 'rule') named.push(ruleEntry(key));
      if (kind === 'neighbour') named.push({ kind, neighbour: { dev, ip: parseIp(rest.slice(rest.indexOf('/') + 1)), mac: noMac } });
    }
    return [...named, ...addresses.filter((entry) => keys.has(keyOf(entry)))];
  }

  async #remove(socket: NetlinkSocket, entries: readonly HostEntry[], link: IfIndex): Promise<void> {
    if (entries.length === 0) return;
    const batch = new Batch();
    for (const entry of entries) {
      switch (entry.kind) {
        case 'link':
          break; // the link is removed by its creator
        case 'address':
          deleteAddress(batch, { link, address: entry.address.ip, prefixLength: entry.address.prefixLength });
          break;
        case 'neighbour':
          deleteNeighbour(batch, { link, address: entry.neighbour.ip });
          break;
        case 'route':
          deleteRoute(batch, { ...routeKeyOf(entry.route), ...entry.foreign?.place });
          break;
        case 'rule':
          if (entry.foreign === undefined) deleteRule(batch, entry.rule);
          break; // a foreign one: `removeForeignRules`
      }
    }
    await removeForeignRules(socket, batch, entries);
    if (batch.entries.length === 0) return;
    for (const error of await socket.attemptOffThread(batch)) if (error && !alreadyGone.has(errnoOf(error) ?? '')) throw error;
  }

  #put(batch: Batch, entry: HostEntry, link: IfIndex, indexOf: (dev: string) => IfIndex): void {
    switch (entry.kind) {
      case 'link':
        break; // `changeGateway`
      case 'address':
        replaceAddress(batch, { link, address: entry.address.ip, prefixLength: entry.address.prefixLength });
        break;
      case 'neighbour':
        replaceNeighbour(batch, { link, address: entry.neighbour.ip, mac: entry.neighbour.mac });
        break;
      case 'route':
        replaceRoute(batch, newRoute(entry.route, indexOf));
        break;
      case 'rule':
        break; // `addRules`
    }
  }
}

function routeKeyOf({ destination, table, metric }: WantedRoute): {
  readonly destination: Cidr;
  readonly protocol: number;
  readonly table?: number;
  readonly metric?: number;
} {
  const place = { ...(table === undefined ? {} : { table }), ...(metric === undefined ? {} : { metric }) };
  return { destination, protocol: ourProtocol, ...place };
}

/** The kernel accepts no interface for a blackhole in IPv4, and ignores it in IPv6. */
function newRoute(route: WantedRoute, indexOf: (dev: string) => IfIndex): NewRoute & { readonly protocol: number } {
  if (route.kind === 'blackhole') return { ...routeKeyOf(route), kind: route.kind };
  return {
    ...routeKeyOf(route),
    gateway: route.via,
    source: route.src,
    link: indexOf(route.dev),
    onLink: route.via !== undefined,
  };
}

type RouteEntry = Extract<HostEntry, { readonly kind: 'route' }>;

function isExclusive(entry: HostEntry): entry is RouteEntry {
  return entry.kind === 'route' && entry.route.exclusive === true;
}

function ruleEntry(key: HostKey): HostEntry {
  return { kind: 'rule', rule: ruleOfKey(key), ...(key.endsWith('/otherwise') ? { foreign: 'otherwise' } : {}) };
}

/**
 * Removes foreign rules. By its key alone, a foreign rule cannot be distinguished from Seine's: the kernel would delete the one that was
 * added first.
 */
async function removeForeignRules(socket: NetlinkSocket, batch: Batch, entries: readonly HostEntry[]): Promise<void> {
  const keys = new Set(entries.flatMap((entry) => (entry.kind === 'rule' && entry.foreign ? [keyOf(entry)] : [])));
  if (keys.size === 0) return;
  for (const family of families)
    for (const rule of await listRulesOffThread(socket, family))
      if (rule.protocol === ourProtocol && keys.has(keyOf(entryOfRule(rule)))) deleteListedRule(batch, rule);
}

/** Adds rules. The kernel cannot replace rules: an existing identical one counts as success. */
async function addRules(socket: NetlinkSocket, entries: readonly HostEntry[]): Promise<void> {
  const batch = new Batch();
  for (const entry of entries) if (entry.kind === 'rule') addRule(batch, entry.rule);
  if (batch.entries.length === 0) return;
  for (const error of await socket.attemptOffThread(batch)) if (error && errnoOf(error) !== 'EEXIST') throw error;
}

function routeEntry(key: HostKey, dev: string): HostEntry {
  const { destination, table, metric } = routeOfKey(key);
  if (table === undefined) return { kind: 'route', route: { destination, dev } };
  if (metric === undefined) return { kind: 'route', route: { destination, dev, table } };
  return { kind: 'route', route: { destination, dev }, foreign: { place: { table, metric } } };
}

type AddressEntry = Extract<HostEntry, { readonly kind: 'address' }>;

/**
 * Returns addresses to remove before adding the same ones with another prefix length: the kernel would keep both (IPv4), or the old one
 * (IPv6).
 */
function displaced(put: ReadonlyMap<HostKey, HostEntry>, addresses: readonly AddressEntry[]): HostEntry[] {
  return addresses.filter((held) => {
    const wanted = put.get(keyOf(held));
    return wanted !== undefined && !sameHostEntry(held, wanted);
  });
}

/** Returns the entries in groups, in their order but for routes: those of each family are a group, in the place of the first route. */
function byFamilyOfRoute<T extends HostEntry>(entries: readonly T[]): readonly (readonly T[])[] {
  const first = entries.findIndex(({ kind }) => kind === 'route');
  if (first < 0) return [entries];
  const others = entries.filter(({ kind }) => kind !== 'route');
  const ofFamily = (family: Family): readonly T[] =>
    entries.filter((entry) => entry.kind === 'route' && entry.route.destination.family === family);
  return [others.slice(0, first), ...families.map(ofFamily), others.slice(first)].filter((group) => group.length > 0);
}

function hasAddress(keys: Iterable<HostKey>): boolean {
  for (const key of keys) if (key.startsWith('address/')) return true;
  return false;
}

async function keep(held: Map<HostKey, HostEntry>, entries: Iterable<HostEntry>): Promise<void> {
  let looked = 0;
  for (const entry of entries) {
    if (++looked % CHECK_SLICE === 0) await nextTurn();
    const key = keyOf(entry);
    // An IPv4 address may be present with several prefix lengths. No owner wants that, so it compares unequal to every desired value.
    const twice = entry.kind === 'address' && held.has(key);
    held.set(key, twice ? { kind: 'address', address: { ...entry.address, prefixLength: 0 } } : entry);
  }
}

function* slices<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += CHANGE_SLICE) yield all.slice(from, from + CHANGE_SLICE);
}
