import type { Ip } from '../../base/net/ip.ts';
import { type HostPort, placeOf } from '../../dataplane/compile/host-port.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../../netlink/conntrack.ts';
import { Batch } from '../../netlink/message.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';

/** IP protocol numbers. */
const ipProtocols = { tcp: 6, udp: 17, sctp: 132 } as const;
/** IP protocol numbers of transports whose connections have no end: their conntrack entry lives as long as the client sends. */
const endless = { udp: 17, sctp: 132 } as const;

/** Change of a host port: added to a pod, or removed from it. */
export type HostPortChange = 'came' | 'went';

/** Addresses and host ports of a pod. */
export interface HostPortsOfPod {
  readonly addresses: readonly Ip[];
  readonly hostPorts: readonly HostPort[];
}

/** Conntrack entries of the node that belong to host ports. */
export class HostPortConnections {
  readonly #routes: NetlinkSocket;
  readonly #tracker: NetlinkSocket;

  /** Opens a socket to conntrack. @param routes socket of protocol `route` in the node's namespace; its owner closes it */
  constructor(routes: NetlinkSocket) {
    this.#routes = routes;
    this.#tracker = NetlinkSocket.open({ protocol: 'netfilter' });
  }

  close(): void {
    this.#tracker.close();
  }

  /**
   * Deletes entries from before the change: a client that continues to send from one port would otherwise reach the previous pod, or none,
   * forever.
   *
   * @returns number of deleted entries
   * @throws SeineError if conntrack cannot be read
   */
  forget({ addresses, hostPorts }: HostPortsOfPod, change: HostPortChange): number {
    const batch = new Batch();
    const isOwn = this.#ownAddresses();
    for (const each of hostPorts) {
      if (each.transport === 'tcp') continue;
      for (const ip of addresses) {
        const filter = { family: ip.family, ipProtocol: endless[each.transport], dstPort: each.hostPort };
        for (const connection of placeOf(each, ip.family) === undefined ? [] : listConnections(this.#tracker, filter))
          if (isStale(connection, { each, ip, change, isOwn })) deleteConnection(batch, connection);
      }
    }
    return this.#delete(batch);
  }

  /**
   * Deletes entries of any protocol that were translated to the pod at an address that the node no longer has, or at a port that the pod
   * has lost: conntrack would otherwise translate them forever.
   *
   * @param lost host ports that are no longer served
   * @returns number of deleted entries
   * @throws SeineError if conntrack cannot be read
   */
  forgetUntranslated({ addresses, hostPorts }: HostPortsOfPod, lost: readonly HostPort[]): number {
    const batch = new Batch();
    const isOwn = this.#ownAddresses();
    for (const each of hostPorts)
      for (const ip of addresses) {
        if (placeOf(each, ip.family) === undefined) continue;
        const filter = { family: ip.family, ipProtocol: ipProtocols[each.transport], dstPort: each.hostPort };
        for (const connection of listConnections(this.#tracker, filter))
          if (isUntranslated(connection, { each, ip, isOwn, isLost: lost.includes(each) })) deleteConnection(batch, connection);
      }
    return this.#delete(batch);
  }

  #ownAddresses(): (ip: Ip) => boolean {
    let own: ReadonlySet<string> | undefined;
    return ({ text }) => {
      own ??= new Set(listAddresses(this.#routes).map(({ address }) => address.text));
      return own.has(text) || text.startsWith('127.');
    };
  }

  #delete(batch: Batch): number {
    return batch.entries.length === 0 ? 0 : this.#tracker.attempt(batch).filter((error) => error === undefined).length;
  }
}

interface TranslatedHostPort {
  readonly each: HostPort;
  readonly ip: Ip;
  readonly isOwn: (ip: Ip) => boolean;
  readonly isLost: boolean;
}

/** Reports whether a connection to the pod through this host port would no longer be translated. Exported for its test. */
export function isUntranslated({ zone, original, reply }: TrackedConnection, { each, ip, isOwn, isLost }: TranslatedHostPort): boolean {
  if (zone !== 0 || original.dstPort !== each.hostPort || original.dst.text === ip.text) return false;
  const isPods = reply.src.text === ip.text && reply.srcPort === each.containerPort;
  return isPods && (isLost || !isOwn(original.dst));
}

interface ChangedHostPort {
  readonly each: HostPort;
  readonly ip: Ip;
  readonly change: HostPortChange;
  readonly isOwn: (ip: Ip) => boolean;
}

/** Reports whether a connection must be deleted after the change. Exported for its test. */
export function isStale({ zone, original, reply }: TrackedConnection, { each, ip, change, isOwn }: ChangedHostPort): boolean {
  const place = placeOf(each, ip.family);
  if (zone !== 0 || place === undefined || original.dstPort !== each.hostPort) return false;
  const isAsked = place === 'everywhere' || original.dst.text === place.text;
  if (!isAsked) return false;
  const leadsToPod = reply.src.text === ip.text && reply.srcPort === each.containerPort;
  // At an address that is not the node's, connections belong to others: nftables does not translate them.
  return change === 'came' ? !leadsToPod && isOwn(original.dst) : leadsToPod && (place !== 'everywhere' || isOwn(original.dst));
}
