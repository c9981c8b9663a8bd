import { type Cidr, parseCidr } from '../../../base/net/ip.ts';
import { mainTable } from '../../../netlink/routing/routes.ts';
import type { HostAddress, HostLink, Wanted, WantedNeighbour, WantedRoute, WantedRule } from '../../desired/host-entries.ts';

export type HostEntry =
  | { readonly kind: 'link'; readonly link: HostLink }
  | { readonly kind: 'address'; readonly address: HostAddress }
  | { readonly kind: 'neighbour'; readonly neighbour: WantedNeighbour }
  | { readonly kind: 'route'; readonly route: WantedRoute; readonly foreign?: ForeignRoute }
  | { readonly kind: 'rule'; readonly rule: WantedRule; readonly foreign?: ForeignRule };

/** Differences of a route with Seine's protocol number from any that Seine creates. */
export interface ForeignRoute {
  /** Table and metric, if they differ from those of Seine's route: the kernel can have both. Part of the key. */
  readonly place?: { readonly table: number; readonly metric: number };
  /** Other attributes that Seine's routes do not have, in the words of `ip route`. */
  readonly details?: string;
}

/** Marks a rule with Seine's protocol number that has selectors or an action that none of Seine's has. Part of the key. */
type ForeignRule = 'otherwise';

/**
 * `link/DEV`, `address/DEV/IP`, `neighbour/DEV/IP`, `route/CIDR`, `rule/FAMILY/PRIORITY/TABLE/MARK`: identity of an entry in the kernel. A
 * route in a table of Seine's ends in ` table NUMBER`; a route with a metric, or in a place where Seine has none, in ` table NUMBER metric
 * NUMBER`. A foreign rule ends in `/otherwise`.
 */
export type HostKey = `${HostEntry['kind']}/${string}`;

/** Order of creation: an address needs its link up, a route needs both. Rules come last: the routes that they select must exist. */
const kinds = ['link', 'address', 'neighbour', 'route', 'rule'] as const;

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
      const { destination, table, metric } = entry.route;
      const inTable = table === undefined ? '' : ` table ${table}`;
      const own = metric === undefined ? inTable : ` table ${table ?? mainTable} metric ${metric}`;
      return `route/${destination.text}${place ? ` table ${place.table} metric ${place.metric}` : own}`;
    }
    case 'rule': {
      const { family, priority, table, mark = 0 } = entry.rule;
      return `rule/${family}/${priority}/${table}/${mark}${entry.foreign ? `/${entry.foreign}` : ''}`;
    }
  }
}

/** @param key of a route */
export function routeOfKey(key: HostKey): { readonly destination: Cidr; readonly table?: number; readonly metric?: number } {
  const [cidr = '', , table, , metric] = key.slice('route/'.length).split(' ');
  const place = { ...(table === undefined ? {} : { table: Number(table) }), ...(metric === undefined ? {} : { metric: Number(metric) }) };
  return { destination: parseCidr(cidr), ...place };
}

/** @param key of a rule */
export function ruleOfKey(key: HostKey): WantedRule {
  const [, family, ...numbers] = key.split('/');
  const [priority = 0, table = 0, mark = 0] = numbers.map(Number);
  return { family: family === 'ipv6' ? 'ipv6' : 'ipv4', priority, table, ...(mark === 0 ? {} : { mark }) };
}

/** Entries of most Services, of which there are many. */
const none: ReadonlyMap<HostKey, HostEntry> = new Map();

export function hostEntries(
  wanted: Pick<Wanted, 'links' | 'addresses' | 'neighbours' | 'routes' | 'rules'>,
): ReadonlyMap<HostKey, HostEntry> {
  const { links, addresses, neighbours, routes, rules } = wanted;
  if (links.length + addresses.length + neighbours.length + routes.length + rules.length === 0) return none;
  const entries: readonly HostEntry[] = [
    ...links.map((link) => ({ kind: 'link', link }) as const),
    ...addresses.map((address) => ({ kind: 'address', address }) as const),
    ...neighbours.map((neighbour) => ({ kind: 'neighbour', neighbour }) as const),
    ...routes.map((route) => ({ kind: 'route', route }) as const),
    ...rules.map((rule) => ({ kind: 'rule', rule }) as const),
  ];
  return new Map(entries.map((entry) => [keyOf(entry), entry]));
}

export function sameHostEntry(a: HostEntry, b: HostEntry): boolean {
  return a === b || (keyOf(a) === keyOf(b) && details(a) === details(b));
}

/** Returns the value of an entry: the attributes that may differ under one key. */
function details(entry: HostEntry): string {
  switch (entry.kind) {
    case 'link':
      return `${entry.link.mtu} ${entry.link.mac}`;
    case 'address':
      return String(entry.address.prefixLength);
    case 'neighbour':
      return entry.neighbour.mac;
    case 'route': {
      const { via, dev, src, kind } = entry.route;
      return `${kind} ${via?.text} ${dev} ${src?.text} ${entry.foreign?.details}`;
    }
    case 'rule':
      return ''; // the key contains everything
  }
}
