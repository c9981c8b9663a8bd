import { type Cidr, parseCidr } from '../net/ip.ts';
import type { HostAddress, HostLink, Wanted, WantedNeighbour, WantedRoute } from '../wanted/wanted.ts';

export type HostEntry =
  | { readonly kind: 'link'; readonly link: HostLink }
  | { readonly kind: 'address'; readonly address: HostAddress }
  | { readonly kind: 'neighbour'; readonly neighbour: WantedNeighbour }
  | { readonly kind: 'route'; readonly route: WantedRoute; readonly foreign?: ForeignRoute };

/** How a route with Seine's protocol number is otherwise than any that Seine makes. */
export interface ForeignRoute {
  /** Another table or metric than that of ours: the kernel holds both. Part of the key. */
  readonly place?: { readonly table: number; readonly metric: number };
  /** What else ours have not, in the words of `ip route`. */
  readonly details?: string;
}

/**
 * `link/DEV`, `address/DEV/IP`, `neighbour/DEV/IP`, `route/CIDR`: the identity of an entry in the kernel. A route that is not where ours
 * are has ` table NUMBER metric NUMBER` after it.
 */
export type HostKey = `${HostEntry['kind']}/${string}`;

/** Order of creation: an address needs its link up, a route needs both. */
const kinds = ['link', 'address', 'neighbour', 'route'] as const;

export function inOrder(entries: Iterable<HostEntry>): HostEntry[] {
  return [...entries].toSorted((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
}

export function keyOf(entry: HostEntry): HostKey {
  switch (entry.kind) {
    case 'link':
      return `link/${entry.link.name}`;
    case 'address':
      return `address/${entry.address.dev}/${entry.address.ip.text}`;
    case 'neighbour':
      return `neighbour/${entry.neighbour.dev}/${entry.neighbour.ip.text}`;
    case 'route': {
      const place = entry.foreign?.place;
      return `route/${entry.route.destination.text}${place ? ` table ${place.table} metric ${place.metric}` : ''}`;
    }
  }
}

/** @param key of a route */
export function routeOfKey(key: HostKey): { readonly destination: Cidr; readonly table?: number; readonly metric?: number } {
  const [cidr = '', , table, , metric] = key.slice('route/'.length).split(' ');
  return { destination: parseCidr(cidr), ...(table === undefined ? {} : { table: Number(table), metric: Number(metric) }) };
}

/** Of most Services: there are many of them. */
const none: ReadonlyMap<HostKey, HostEntry> = new Map();

export function hostEntries(wanted: Pick<Wanted, 'links' | 'addresses' | 'neighbours' | 'routes'>): ReadonlyMap<HostKey, HostEntry> {
  if (wanted.links.length + wanted.addresses.length + wanted.neighbours.length + wanted.routes.length === 0) return none;
  const entries: readonly HostEntry[] = [
    ...wanted.links.map((link) => ({ kind: 'link', link }) as const),
    ...wanted.addresses.map((address) => ({ kind: 'address', address }) as const),
    ...wanted.neighbours.map((neighbour) => ({ kind: 'neighbour', neighbour }) as const),
    ...wanted.routes.map((route) => ({ kind: 'route', route }) as const),
  ];
  return new Map(entries.map((entry) => [keyOf(entry), entry]));
}

export function sameHostEntry(a: HostEntry, b: HostEntry): boolean {
  return a === b || (keyOf(a) === keyOf(b) && details(a) === details(b));
}

/** The value of an entry: what may differ under one key. */
function details(entry: HostEntry): string {
  switch (entry.kind) {
    case 'link':
      return `${entry.link.mtu} ${entry.link.mac}`;
    case 'address':
      return String(entry.address.prefixLength);
    case 'neighbour':
      return entry.neighbour.mac;
    case 'route': {
      const { via, dev, src } = entry.route;
      return `${via?.text} ${dev} ${src?.text} ${entry.foreign?.details}`;
    }
  }
}
