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

/** Where a pod's end is. */
interface PodEndPlace {
  readonly netnsPath: string;
  /** Of the namespace that is meant, if known. */
  readonly netnsCookie: string | undefined;
  /** The node's end, as the kernel shows it. */
  readonly hostLink: Pick<Link, 'index' | 'peerIndex'>;
  /** Of a standing port: the far end, over which the pod's interface is. */
  readonly far?: FarEnd | undefined;
}

/** A pod's end as it is now. */
export interface PodEnd {
  readonly link: Link;
  readonly addresses: readonly Address[];
  /** Of every table but the kernel's own. */
  readonly routes: readonly Route[];
  readonly transmitChecksum: 'on' | 'off';
}

/** What to make of a pod's end; what is left out stays. */
interface PodEndChange {
  readonly name?: string;
  readonly mac?: Mac;
  readonly mtu?: number;
  readonly state?: 'up';
  readonly transmitChecksum?: 'off';
  /** These addresses and routes, where they are missing. */
  readonly routing?: PodRouting & { readonly tables: RouteTables };
}

/**
 * Looks at a pod's end, which is found by its peer: its name may be another by now.
 *
 * @returns `unseen` if the namespace is gone, or if it cannot be told whether the path is still its own; undefined if the end is not in it
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

/** Changes a pod's end, if it is to be seen. @throws SeineError `REFUSED` */
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

/** The path of a process is another's when the process is: without the namespace's own number it says nothing. */
export function mayBeAnother({ netnsPath, netnsCookie }: Pick<PodEndPlace, 'netnsPath' | 'netnsCookie'>): boolean {
  return netnsPath.startsWith('/proc/') && netnsCookie === undefined;
}

function openIfThere(path: string): NetworkNamespace | undefined {
  try {
    return NetworkNamespace.open(path);
  } catch {
    return undefined; // gone, or no namespace any more: there is nothing to see
  }
}

/** Every namespace has numbers of its own, so a number says nothing unless the other end confirms it. */
function endIn(inside: NetlinkSocket, { hostLink: { index, peerIndex }, far }: PodEndPlace): Link | undefined {
  if (far) return interfaceOver(inside, far);
  const link = peerIndex && getLink(inside, peerIndex);
  return link?.kind === 'veth' && link.peerIndex === index ? link : undefined;
}
