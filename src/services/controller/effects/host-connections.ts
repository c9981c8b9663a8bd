import type { Ip } from '../../../base/net/ip.ts';
import { nodePortAddress } from '../../../dataplane/pipeline/well-known.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../../../netlink/conntrack.ts';
import { Batch } from '../../../netlink/message.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import { isVirtual } from '../../compile/service-intent.ts';
import type { StaleHostConnections } from './stale-connections.ts';

/** Connection tracking of the node itself: zone 0 of the kernel's. */
export class HostConnections {
  readonly #socket: NetlinkSocket;
  readonly #isOwn: (ip: Ip) => boolean;

  /**
   * @param socket of protocol `netfilter`
   * @param isOwn reports whether an address is the node's
   */
  constructor(socket: NetlinkSocket, isOwn: (ip: Ip) => boolean) {
    this.#socket = socket;
    this.#isOwn = isOwn;
  }

  /**
   * Deletes connections, with one walk through the table for each family and protocol.
   *
   * @returns the number of deleted connections, including those that ended meanwhile
   * @throws SeineError if the table cannot be read
   */
  forget(all: readonly StaleHostConnections[]): number {
    let forgotten = 0;
    for (const same of Map.groupBy(all, ({ ipProtocol, address: { ip } }) => `${ipProtocol} ${ip.family}`).values())
      forgotten += this.#forgetAlike(same);
    return forgotten;
  }

  /** @param same connections of one family and protocol */
  #forgetAlike(same: readonly StaleHostConnections[]): number {
    const [first] = same;
    if (!first) return 0;
    const { ipProtocol, address } = first;
    const byPort = Map.groupBy(same, (each) => each.address.port);
    const only = byPort.size === 1 ? { dstPort: address.port } : {};
    const batch = new Batch();
    for (const connection of listConnections(this.#socket, { family: address.ip.family, ipProtocol, ...only }))
      if (byPort.get(connection.original.dstPort)?.some((stale) => this.#isStale(connection, stale.address)))
        deleteConnection(batch, connection);
    return batch.entries.length === 0 ? 0 : this.#socket.attempt(batch).filter((error) => error === undefined).length;
  }

  /** Reports whether a connection is stale. For a node port: it was translated to the virtual address, or should have been. */
  #isStale({ zone, original, reply }: TrackedConnection, { ip }: StaleHostConnections['address']): boolean {
    if (zone !== 0) return false;
    if (!isVirtual({ ip })) return original.dst.text === ip.text;
    return reply.src.text === nodePortAddress[ip.family].text || (reply.src.text === original.dst.text && this.#isOwn(original.dst));
  }
}
