import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Flow, Group, Meter } from '../pipeline/flow.ts';

/** Route of the node, identified by its destination, table and metric. */
export interface WantedRoute {
  readonly destination: Cidr;
  /** `blackhole`: packets are dropped, and processes of the node get an error at once. Absent: packets are sent. */
  readonly kind?: 'blackhole';
  /** Next hop, assumed reachable on `dev` regardless of routes (`onlink`); without it the destination is on the link. */
  readonly via?: Ip;
  /** Interface of Seine's, or another one of the node, such as the one between the nodes. A blackhole's is the loopback interface. */
  readonly dev: string;
  /** The kernel uses the route with the lowest metric; the family's ordinary metric if omitted. Part of the identity. */
  readonly metric?: number;
  /** Source address for packets that the node itself sends. */
  readonly src?: Ip;
  /**
   * Never replaces another program's route to this destination: it is refused then. Without it, the route replaces that one. Not part of
   * the value.
   */
  readonly exclusive?: true;
  /** Routing table; the main table if omitted. Part of the identity. */
  readonly table?: number;
}

/** Rule of the node's routing policy: packets with these bits of the mark, or all packets, are looked up in a table. */
export interface WantedRule {
  readonly family: Family;
  readonly priority: number;
  readonly table: number;
  readonly mark?: number;
}

/** Permanent neighbour of the node, identified by device and address. */
export interface WantedNeighbour {
  readonly dev: string;
  readonly ip: Ip;
  readonly mac: Mac;
}

/** Address of an interface of Seine's, identified by device and address. */
export interface HostAddress {
  readonly dev: string;
  readonly ip: Ip;
  readonly prefixLength: number;
}

/** Interface of Seine's that is up and has this MTU. Another target creates it. */
export interface HostLink {
  readonly name: string;
  /** MTU in bytes. */
  readonly mtu: number;
  readonly mac: Mac;
}

/**
 * All entries that one owner wants. Effectively sets: the order has no meaning, and two owners may want the same entry if their values are
 * equal.
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
