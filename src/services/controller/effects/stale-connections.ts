import type { Transport } from '../../../dataplane/pipeline/flow.ts';
import { zones } from '../../../dataplane/pipeline/well-known.ts';
import {
  endpointKey,
  reachableEndpoints,
  type ServiceAddress,
  type ServiceEndpoint,
  type ServiceIntent,
} from '../../compile/service-intent.ts';

/** Numbers of IP protocols. */
export const ipProtocols: Readonly<Record<Transport, number>> = { tcp: 6, udp: 17, sctp: 132 };

/** Connections of the bridge to an endpoint or address that is no longer served, or that bypass a Service that is served now. */
export interface StaleConnections {
  readonly zone: number;
  readonly ipProtocol: number;
  readonly address: ServiceAddress;
  /** Restricts to connections translated to this endpoint; if omitted, all connections, translated or not. */
  readonly endpoint?: ServiceEndpoint;
  /** Includes connections to all other ports of the address. */
  readonly allPorts?: true;
}

/** Connections of the node's own connection tracking that were decided before a Service appeared or after it was removed. */
export interface StaleHostConnections {
  readonly ipProtocol: number;
  readonly address: ServiceAddress;
}

export interface Stale {
  readonly bridge: readonly StaleConnections[];
  readonly host: readonly StaleHostConnections[];
}

export interface StaleOptions {
  readonly transports: readonly Transport[];
  /** Bypassing connections. With `kept`, those tracked before this agent started are kept: a Service that is new to the agent need not be new. */
  readonly newServices: 'flushed' | 'kept';
}

const nothingStale: Stale = { bridge: [], host: [] };

/**
 * Returns connections that the change of one port of a Service makes stale. UDP has no end: an entry lives as long as its client keeps
 * sending, and keeps its first destination.
 *
 * - The port or the address is removed: all connections to it.
 * - It gets its first endpoint: all connections that bypassed it, or were sent elsewhere, before.
 * - An endpoint is removed: only connections translated to it.
 * - External clients may no longer be sent to other nodes (policy `Local`): those that were.
 */
export function staleAfter(before: ServiceIntent | undefined, after: ServiceIntent | undefined, options: StaleOptions): Stale {
  const known = before ?? after;
  if (!known || !options.transports.includes(known.transport)) return nothingStale;
  const ipProtocol = ipProtocols[known.transport];
  const zone = zones[known.family].main;
  const kept = new Set(after?.addresses.map(addressKey));
  const had = new Set(before?.addresses.map(addressKey));
  const gone = (before?.addresses ?? []).filter((address) => !kept.has(addressKey(address)));
  const come = (after?.addresses ?? []).filter((address) => !had.has(addressKey(address)));
  const stay = (after?.addresses ?? []).filter((address) => had.has(addressKey(address)));
  const revived = before && after && isServed(after) && !isServed(before) ? stay : [];
  const fresh = options.newServices === 'flushed' ? come : [];
  const moved =
    before && after ? stay.flatMap((address) => leftEndpoints(address, before, after).map((endpoint) => ({ address, endpoint }))) : [];
  return {
    bridge: [
      ...[...gone, ...fresh, ...revived].map((address) => ({ zone, ipProtocol, address })),
      ...(revived.length > 0 ? [] : moved.map((each) => ({ zone, ipProtocol, ...each }))),
    ],
    host: [...gone, ...fresh].map((address) => ({ ipProtocol, address })),
  };
}

/**
 * Reports whether a stale connection leads to what this address serves now: its endpoint returned before the connection was deleted.
 *
 * @param now the port that serves the address; undefined if none does
 */
export function isServedAgain({ address, endpoint }: StaleConnections, now: ServiceIntent | undefined): boolean {
  if (endpoint === undefined || now === undefined) return false;
  const kind = kindOf(address, now);
  const allowed = kind !== 'cluster' && now.externalPolicy === 'Local' ? now.local : endpointsAt(kind, now);
  return allowed.some((each) => endpointKey(each) === endpointKey(endpoint));
}

/** Returns the connections to all ports of the address. */
export function wholeAddress({ zone, ipProtocol, address }: StaleConnections): StaleConnections {
  return { zone, ipProtocol, address: { ...address, port: 0 }, allPorts: true };
}

/** Returns connections that include these, and others of the same Service; undefined if there are none. */
export function moreConnections(stale: StaleConnections): StaleConnections | undefined {
  const { zone, ipProtocol, address, endpoint, allPorts } = stale;
  if (endpoint !== undefined) return { zone, ipProtocol, address };
  return allPorts || address.kind !== 'cluster' ? undefined : wholeAddress(stale);
}

/** Returns the key by which a port finds its connections, and connections their port. */
export function servedKey(ipProtocol: number, { ip, port }: Pick<ServiceAddress, 'ip' | 'port'>): string {
  return `${ipProtocol} ${ip.text} ${port}`;
}

/** Returns the kind of this address of the port. */
export function kindOf({ kind, ip, port }: ServiceAddress, now: ServiceIntent): ServiceAddress['kind'] {
  return now.addresses.find((each) => each.ip.text === ip.text && each.port === port)?.kind ?? kind;
}

function leftEndpoints({ kind }: ServiceAddress, before: ServiceIntent, after: ServiceIntent): readonly ServiceEndpoint[] {
  const turned = kind !== 'cluster' && before.externalPolicy === 'Cluster' && after.externalPolicy === 'Local';
  const [was, is] = [endpointsAt(kind, before), turned ? after.local : endpointsAt(kind, after)];
  if (was === is) return [];
  const there = new Set(is.map(endpointKey));
  return was.filter((endpoint) => !there.has(endpointKey(endpoint)));
}

/** Returns every endpoint to which a client may be sent: at external addresses, pods and the node get every endpoint, with any policy. */
export function endpointsAt(kind: ServiceAddress['kind'], intent: ServiceIntent): readonly ServiceEndpoint[] {
  if (kind !== 'cluster') return intent.externalPolicy === 'Local' ? reachableEndpoints(intent) : intent.cluster;
  return intent.internalPolicy === 'Local' ? intent.local : intent.cluster;
}

function isServed(intent: ServiceIntent): boolean {
  return intent.cluster.length > 0 || intent.local.length > 0;
}

function addressKey({ kind, ip, port }: ServiceAddress): string {
  return `${kind} ${ip.text} ${port}`;
}
