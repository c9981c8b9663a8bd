import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Transport } from '../../../dataplane/pipeline/flow.ts';
import { nodePortAddress, zones } from '../../../dataplane/pipeline/well-known.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../../../netlink/conntrack.ts';
import { Batch } from '../../../netlink/message.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';
import type { ServiceIntent } from '../../compile/service-intent.ts';
import { endpointsAt, ipProtocols, kindOf, servedKey } from './stale-connections.ts';

/** Number of connections deleted with one system call. */
const BATCH_SIZE = 1_000;

/**
 * Reports whether a connection of the kernel leads where its Service is served.
 *
 * - In the bridge's zone (with the kernel data path): it is translated to an endpoint that the address has, or untranslated if the address
 *   is not served or is the endpoint itself.
 * - In the node's own zone: if nftables has translated it to the virtual address of node ports, the port is served.
 *
 * @param served ports by `servedKey`
 * @returns `other` for connections of no Service
 */
export function assessConnection(connection: TrackedConnection, served: ReadonlyMap<string, ServiceIntent>): 'well' | 'astray' | 'other' {
  const { family, zone, ipProtocol, original, reply } = connection;
  if (zone === 0) {
    if (reply.src.text !== nodePortAddress[family].text) return 'other';
    return served.has(servedKey(ipProtocol, { ip: reply.src, port: reply.srcPort })) ? 'well' : 'astray';
  }
  if (zone !== zones[family].main) return 'other';
  const address = { ip: original.dst, port: original.dstPort };
  const intent = served.get(servedKey(ipProtocol, address));
  const isTranslated = reply.src.text !== original.dst.text || reply.srcPort !== original.dstPort;
  // Nothing else is translated there; and from an address to itself, nothing is.
  if (intent === undefined) return isTranslated ? 'astray' : 'other';
  if (!isTranslated && original.src.text === original.dst.text) return 'well';
  const endpoints = endpointsAt(kindOf({ kind: 'cluster', ...address }, intent), intent);
  if (endpoints.some(({ ip, port }) => ip.text === reply.src.text && port === reply.srcPort)) return 'well';
  return isTranslated || endpoints.length > 0 ? 'astray' : 'well';
}

/** Connection tracking of the kernel, all zones. */
export class TrackedConnections {
  readonly #socket: NetlinkSocket;

  /** @param socket of protocol `netfilter` */
  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /** Lists connections in slices, for a walk through the table takes 13 ms. @throws SeineError if the table cannot be read */
  async list(transports: readonly Transport[]): Promise<readonly TrackedConnection[]> {
    const found: TrackedConnection[] = [];
    for (const transport of transports)
      for (const family of ['ipv4', 'ipv6'] as const) {
        for (const each of listConnections(this.#socket, { family, ipProtocol: ipProtocols[transport] })) found.push(each);
        await nextTurn();
      }
    return found;
  }

  /** Deletes connections. One that ended meanwhile counts as deleted. */
  async forget(connections: readonly TrackedConnection[]): Promise<void> {
    for (let at = 0; at < connections.length; at += BATCH_SIZE) {
      const batch = new Batch();
      for (const each of connections.slice(at, at + BATCH_SIZE)) deleteConnection(batch, each);
      this.#socket.attempt(batch);
      await nextTurn();
    }
  }
}
