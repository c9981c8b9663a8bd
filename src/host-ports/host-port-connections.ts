import { type HostPort, placeOf } from '../connectivity/host-port.ts';
import type { Ip } from '../net/ip.ts';
import { listAddresses } from '../netlink/addresses.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../netlink/conntrack.ts';
import { Batch } from '../netlink/message.ts';
import { NetlinkSocket } from '../netlink/socket.ts';

/** Of those whose connections have no end, the number of the IP protocol: an entry of the tracker lives as long as its client sends. */
const endless = { udp: 17, sctp: 132 } as const;

/** Whether a host port has come to a pod, or gone from it. */
export type HostPortChange = 'came' | 'went';

/** A pod's addresses and host ports. */
export interface HostPortsOfPod {
  readonly addresses: readonly Ip[];
  readonly hostPorts: readonly HostPort[];
}

/** The node's tracker of connections, as far as it leads to host ports. */
export class HostPortConnections {
  readonly #routes: NetlinkSocket;
  readonly #tracker: NetlinkSocket;

  /** @param routes of protocol `route`, in the node's namespace; its owner closes it */
  constructor(routes: NetlinkSocket) {
    this.#routes = routes;
    this.#tracker = NetlinkSocket.open({ protocol: 'netfilter' });
  }

  close(): void {
    this.#tracker.close();
  }

  /**
   * Forgets what was decided before the change: a client that goes on sending from one port would reach the old pod, or none, for ever.
   *
   * @returns how many were forgotten
   * @throws SeineError if the tracker cannot be read
   */
  forget({ addresses, hostPorts }: HostPortsOfPod, change: HostPortChange): number {
    const batch = new Batch();
    let own: ReadonlySet<string> | undefined;
    const isOwn = ({ text }: Ip): boolean => {
      own ??= new Set(listAddresses(this.#routes).map(({ address }) => address.text));
      return own.has(text) || text.startsWith('127.');
    };
    for (const each of hostPorts) {
      if (each.transport === 'tcp') continue;
      for (const ip of addresses) {
        const filter = { family: ip.family, ipProtocol: endless[each.transport], dstPort: each.hostPort };
        for (const connection of placeOf(each, ip.family) === undefined ? [] : listConnections(this.#tracker, filter))
          if (isStale(connection, { each, ip, change, isOwn })) deleteConnection(batch, connection);
      }
    }
    return batch.entries.length === 0 ? 0 : this.#tracker.attempt(batch).filter((error) => error === undefined).length;
  }
}

interface ChangedHostPort {
  readonly each: HostPort;
  readonly ip: Ip;
  readonly change: HostPortChange;
  readonly isOwn: (ip: Ip) => boolean;
}

/** Exported for its test. */
export function isStale({ zone, original, reply }: TrackedConnection, { each, ip, change, isOwn }: ChangedHostPort): boolean {
  const place = placeOf(each, ip.family);
  if (zone !== 0 || place === undefined || original.dstPort !== each.hostPort) return false;
  const isAsked = place === 'everywhere' ? isOwn(original.dst) : original.dst.text === place.text;
  if (!isAsked) return false;
  const leadsToPod = reply.src.text === ip.text && reply.srcPort === each.containerPort;
  return change === 'came' ? !leadsToPod : leadsToPod;
}
