import { setImmediate as nextTurn } from 'node:timers/promises';
import { SeineError } from '../errors/seine-error.ts';
import { type Family, parseCidr, parseIp } from '../net/ip.ts';
import { parseMac } from '../net/mac.ts';
import { deleteAddress, listAddresses, replaceAddress } from '../netlink/addresses.ts';
import { errnoOf } from '../netlink/errno.ts';
import { changeLink, getLink, type Link } from '../netlink/links.ts';
import { Batch } from '../netlink/message.ts';
import { deleteNeighbour, listNeighbours, replaceNeighbour } from '../netlink/neighbours.ts';
import { deleteRoute, listRoutes, ourProtocol, replaceRoute } from '../netlink/routes.ts';
import type { NetlinkSocket } from '../netlink/socket.ts';
import { type HostEntry, type HostKey, inOrder, keyOf, sameHostEntry } from './host-entry.ts';
import type { Plan, Target } from './target.ts';

const families: readonly Family[] = ['ipv4', 'ipv6'];

/** Entries looked at before the loop gets a turn: a millisecond of work, the kernel's own lists excepted. */
const LOOK_SLICE = 1_000;
/** A neighbour is removed by its address. */
const noMac = parseMac('00:00:00:00:00:00');

/** Gone already is as good as deleted. */
const alreadyGone = new Set(['ENOENT', 'ESRCH', 'EADDRNOTAVAIL', 'ENODEV']);

/**
 * The node's own stack as far as it is ours: the gateway interface, its addresses and permanent neighbours, and routes that
 * carry our protocol number.
 *
 * The kernel takes each message by itself, so a refused plan may be done in part; every put can be repeated. A route takes the
 * place of somebody else's with the same destination and metric: the kernel has room for one.
 */
export class HostTarget implements Target<HostKey, HostEntry> {
  readonly #socket: NetlinkSocket;
  readonly #gateway: string;

  /** @param gateway the interface whose addresses and permanent neighbours are all ours */
  constructor(socket: NetlinkSocket, gateway: string) {
    this.#socket = socket;
    this.#gateway = gateway;
  }

  async observe(): Promise<Map<HostKey, HostEntry>> {
    const link = getLink(this.#socket, this.#gateway);
    const held = new Map<HostKey, HostEntry>();
    let looked = 0;
    for (const entry of chain(link ? this.#observeGateway(link) : [], this.#observeRoutes(link))) {
      if (++looked % LOOK_SLICE === 0) await nextTurn();
      const key = keyOf(entry);
      // One IPv4 address may be there with several prefix lengths. Nobody wants that, so it equals nothing that is wanted.
      const twice = entry.kind === 'address' && held.has(key);
      held.set(key, twice ? { kind: 'address', address: { ...entry.address, prefixLength: 0 } } : entry);
    }
    return held;
  }

  async apply({ put, remove }: Plan<HostKey, HostEntry>): Promise<void> {
    const link = getLink(this.#socket, this.#gateway);
    if (!link) throw new SeineError('UNAVAILABLE', `there is no interface ${this.#gateway} yet`);
    const removals = [...this.#named(remove, link), ...this.#displaced(put, link)];
    if (removals.length > 0) this.#remove(inOrder(removals).toReversed(), link);
    const batch = new Batch();
    for (const entry of inOrder(put.values())) this.#put(batch, entry, link);
    if (put.size > 0) this.#socket.transact(batch);
  }

  *#observeGateway(link: Link): Generator<HostEntry> {
    const dev = this.#gateway;
    if (link.state === 'up' && link.mac !== undefined) yield { kind: 'link', link: { name: dev, mtu: link.mtu, mac: link.mac } };
    yield* this.#observeAddresses(link);
    for (const family of families) {
      for (const { address, mac, state } of listNeighbours(this.#socket, { family, link: link.index })) {
        if (state === 'permanent' && mac) yield { kind: 'neighbour', neighbour: { dev, ip: address, mac } };
      }
    }
  }

  *#observeRoutes(gateway: Link | undefined): Generator<HostEntry> {
    for (const family of families) {
      for (const route of listRoutes(this.#socket, { family, protocol: ourProtocol })) {
        // A route over another device compares unequal to every wanted one.
        const dev = route.link === gateway?.index ? this.#gateway : `#${route.link}`;
        const found = { destination: route.destination, dev };
        const via = route.gateway ? { via: route.gateway } : {};
        const src = route.source ? { src: route.source } : {};
        yield { kind: 'route', route: { ...found, ...via, ...src } };
      }
    }
  }

  *#observeAddresses(link: Link): Generator<HostEntry> {
    for (const { address, prefixLength, scope } of listAddresses(this.#socket, { link: link.index })) {
      if (scope === 'global') yield { kind: 'address', address: { dev: this.#gateway, ip: address, prefixLength } };
    }
  }

  /**
   * What these keys stand for, as a removal must name it: an address with the prefix length that the kernel holds, the rest by the
   * key alone. Thousands of peers' routes are not read for each one that goes.
   */
  #named(keys: ReadonlySet<HostKey>, link: Link): HostEntry[] {
    const dev = this.#gateway;
    const named: HostEntry[] = [];
    for (const key of keys) {
      const [kind, rest] = [key.slice(0, key.indexOf('/')), key.slice(key.indexOf('/') + 1)];
      if (kind === 'route') named.push({ kind, route: { destination: parseCidr(rest), dev } });
      if (kind === 'neighbour') named.push({ kind, neighbour: { dev, ip: parseIp(rest.slice(rest.indexOf('/') + 1)), mac: noMac } });
    }
    if (![...keys].some((key) => key.startsWith('address/'))) return named;
    return [...named, ...[...this.#observeAddresses(link)].filter((entry) => keys.has(keyOf(entry)))];
  }

  /**
   * Addresses that stand in the way of the same ones with another prefix length: the kernel would keep both (IPv4), or the old
   * one (IPv6).
   */
  #displaced(put: ReadonlyMap<HostKey, HostEntry>, link: Link): HostEntry[] {
    if (![...put.values()].some(({ kind }) => kind === 'address')) return [];
    return [...this.#observeAddresses(link)].filter((held) => {
      const wanted = held.kind === 'address' ? put.get(keyOf(held)) : undefined;
      return wanted !== undefined && !sameHostEntry(held, wanted);
    });
  }

  #remove(entries: readonly HostEntry[], { index: link }: Link): void {
    const batch = new Batch();
    for (const entry of entries) {
      switch (entry.kind) {
        case 'link':
          break; // whoever makes the link takes it away
        case 'address':
          deleteAddress(batch, { link, address: entry.address.ip, prefixLength: entry.address.prefixLength });
          break;
        case 'neighbour':
          deleteNeighbour(batch, { link, address: entry.neighbour.ip });
          break;
        case 'route':
          deleteRoute(batch, { destination: entry.route.destination, protocol: ourProtocol });
          break;
      }
    }
    for (const error of this.#socket.attempt(batch)) if (error && !alreadyGone.has(errnoOf(error) ?? '')) throw error;
  }

  #put(batch: Batch, entry: HostEntry, { index: link }: Link): void {
    switch (entry.kind) {
      case 'link':
        changeLink(batch, link, { state: 'up', mtu: entry.link.mtu, mac: entry.link.mac });
        break;
      case 'address':
        replaceAddress(batch, { link, address: entry.address.ip, prefixLength: entry.address.prefixLength });
        break;
      case 'neighbour':
        replaceNeighbour(batch, { link, address: entry.neighbour.ip, mac: entry.neighbour.mac });
        break;
      case 'route':
        replaceRoute(batch, {
          destination: entry.route.destination,
          gateway: entry.route.via,
          source: entry.route.src,
          link,
          onLink: entry.route.via !== undefined,
          protocol: ourProtocol,
        });
        break;
    }
  }
}

/** One after the other; the second is not asked before the first is through. */
function* chain<T>(...all: readonly Iterable<T>[]): Generator<T> {
  for (const each of all) yield* each;
}
