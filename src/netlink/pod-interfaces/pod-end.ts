import type { Mac } from '../../base/net/mac.ts';
import { readTransmitChecksum, setTransmitChecksum } from '../ethtool.ts';
import type { IfIndex } from '../interface-name.ts';
import { changeLink, getLink, type Link } from '../links.ts';
import { Batch } from '../message.ts';
import { NetworkNamespace } from '../namespace.ts';
import { type Address, listAddresses } from '../routing/addresses.ts';
import { listRoutes, localTable, type Route } from '../routing/routes.ts';
import { NetlinkSocket } from '../socket.ts';
import { ensureSysctl } from '../sysctl.ts';
import { type PodRouting, type RouteTables, restoreRouting } from './pod-routing.ts';
import { type FarEnd, interfaceOver } from './pre-plugged-port.ts';

/** Location of a pod's end. */
interface PodEndPlace {
  readonly netnsPath: string;
  /** Cookie of the expected namespace, if known. */
  readonly netnsCookie: string | undefined;
  /** The node's end, as read from the kernel. */
  readonly hostLink: Pick<Link, 'index' | 'peerIndex'>;
  /** Set for a pre-plugged port: the far end, below the pod's interface. */
  readonly far?: FarEnd | undefined;
}

/** Current state of a pod's end. */
export interface PodEnd {
  readonly link: Link;
  readonly addresses: readonly Address[];
  /** Routes of every table but the kernel's own. */
  readonly routes: readonly Route[];
  readonly transmitChecksum: 'on' | 'off';
}

/** Changes of a pod's end; absent members are left unchanged. */
interface PodEndChange {
  readonly name?: string;
  readonly mac?: Mac;
  readonly mtu?: number;
  readonly state?: 'up';
  readonly transmitChecksum?: 'off';
  /** Addresses and routes to add where they are missing. */
  readonly routing?: PodRouting & { readonly tables: RouteTables };
}

/**
 * Reads a pod's end, which is found by its peer: its name may have changed.
 *
 * @returns `unseen` if the namespace no longer exists, or if it is unknown whether the path still refers to it; undefined if the end is not
 *   in it
 */
export function readPodEnd(place: PodEndPlace): PodEnd | 'unseen' | undefined {
  return visit<PodEnd | 'unseen' | undefined>(place, 'unseen', (inside) => {
    const link = endIn(inside, place);
    if (link === undefined) return undefined;
    const { index } = link;
    const families = ['ipv4', 'ipv6'] as const;
    return {
      link,
      addresses: listAddresses(inside, { link: index }),
      routes: families.flatMap((family) => listRoutes(inside, { family, link: index })).filter(({ table }) => table !== localTable),
      transmitChecksum: readTransmitChecksum(inside, link.name),
    };
  });
}

/** Changes a pod's end, if it can be seen. @throws SeineError `REFUSED` */
export function changePodEnd(place: PodEndPlace, change: PodEndChange): void {
  visit(place, undefined, (inside, namespace) => {
    const link = endIn(inside, place);
    if (link === undefined) return;
    const { index } = link;
    const { routing } = change;
    inside.transact(linkChanges(index, change));
    const name = change.name ?? link.name;
    if (change.transmitChecksum) setTransmitChecksum(inside, name, change.transmitChecksum);
    if (routing === undefined) return;
    if (routing.addresses.some(({ address }) => address.family === 'ipv6'))
      namespace.run(() => ensureSysctl(['net', 'ipv6', 'conf', name, 'disable_ipv6'], 0));
    restoreRouting(inside, index, routing, routing.tables);
  });
}

/** A name can only be changed while the interface is down. */
function linkChanges(index: IfIndex, { name, state, mac, mtu }: PodEndChange): Batch {
  const batch = new Batch();
  if (name !== undefined) {
    changeLink(batch, index, { state: 'down' });
    changeLink(batch, index, { name });
  }
  const up = state ?? (name === undefined ? undefined : 'up');
  changeLink(batch, index, { mac, mtu, ...(up === undefined ? {} : { state: up }) });
  return batch;
}

function visit<T>({ netnsPath, netnsCookie }: PodEndPlace, unseen: T, look: (inside: NetlinkSocket, namespace: NetworkNamespace) => T): T {
  if (mayBeAnother({ netnsPath, netnsCookie })) return unseen;
  const namespace = openIfThere(netnsPath);
  if (namespace === undefined) return unseen;
  let inside: NetlinkSocket | undefined;
  try {
    inside = NetlinkSocket.open({ namespace });
    if (netnsCookie !== undefined && inside.namespaceCookie !== netnsCookie) return unseen;
    return look(inside, namespace);
  } finally {
    inside?.close();
    namespace.close();
  }
}

/** After the end of a process, its path may refer to another process: without the namespace's cookie it proves nothing. */
export function mayBeAnother({ netnsPath, netnsCookie }: Pick<PodEndPlace, 'netnsPath' | 'netnsCookie'>): boolean {
  return netnsPath.startsWith('/proc/') && netnsCookie === undefined;
}

function openIfThere(path: string): NetworkNamespace | undefined {
  try {
    return NetworkNamespace.open(path);
  } catch {
    return undefined; // deleted, or no longer a namespace: nothing can be read
  }
}

/** Every namespace numbers its links itself, so a number proves nothing unless the other end confirms it. */
function endIn(inside: NetlinkSocket, { hostLink: { index, peerIndex }, far }: PodEndPlace): Link | undefined {
  if (far) return interfaceOver(inside, far);
  const link = peerIndex && getLink(inside, peerIndex);
  return link?.kind === 'veth' && link.peerIndex === index ? link : undefined;
}
