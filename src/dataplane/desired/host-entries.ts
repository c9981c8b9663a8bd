import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Flow, Group, Meter } from '../pipeline/flow.ts';

/** A route of the node, identified by its destination and table. */
export interface WantedRoute {
  readonly destination: Cidr;
  /** Next hop, taken as reachable on `dev` whatever the routes say (`onlink`); without it the destination is on the link. */
  readonly via?: Ip;
  readonly dev: string;
  /** Source address for packets that the node itself sends. */
  readonly src?: Ip;
  /** Routing table; the main table if left out. Part of the identity. */
  readonly table?: number;
}

/** A rule of the node's routing policy: packets with these bits of the mark, or all packets, are looked up in a table. */
export interface WantedRule {
  readonly family: Family;
  readonly priority: number;
  readonly table: number;
  readonly mark?: number;
}

/** A permanent neighbour of the node, identified by device and address. */
export interface WantedNeighbour {
  readonly dev: string;
  readonly ip: Ip;
  readonly mac: Mac;
}

/** An address of an interface that is ours, identified by device and address. */
export interface HostAddress {
  readonly dev: string;
  readonly ip: Ip;
  readonly prefixLength: number;
}

/** An interface that is ours, up and of this size. Another part makes it. */
export interface HostLink {
  readonly name: string;
  /** Bytes of an IP packet. */
  readonly mtu: number;
  readonly mac: Mac;
}

/**
 * Everything one owner asks of the node. Sets in effect: order carries no meaning, and two owners may ask for the same
 * entry as long as they ask for it alike.
 */
export interface Wanted {
  readonly flows: readonly Flow[];
  readonly groups: readonly Group[];
  readonly meters: readonly Meter[];
  readonly routes: readonly WantedRoute[];
  readonly rules: readonly WantedRule[];
  readonly neighbours: readonly WantedNeighbour[];
  readonly addresses: readonly HostAddress[];
  readonly links: readonly HostLink[];
}

export const nothing: Wanted = { flows: [], groups: [], meters: [], routes: [], rules: [], neighbours: [], addresses: [], links: [] };
