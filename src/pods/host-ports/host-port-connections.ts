import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Ip } from '../../base/net/ip.ts';
import { type HostPort, placeOf } from '../../dataplane/compile/host-port.ts';
import { deleteConnection, listConnectionsOffThread, type TrackedConnection } from '../../netlink/conntrack.ts';
import { Batch } from '../../netlink/message.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';

/** IP protocol numbers. */
const ipProtocols = { tcp: 6, udp: 17, sctp: 132 } as const;
/** Number of connections deleted in one turn of the event loop. */
const BATCH_SIZE = 500;

/** Change of a host port: added to a pod, or removed from it. */
export type HostPortChange = 'came' | 'went';

/** Addresses and host ports of a pod. */
export interface HostPortsOfPod {
  readonly addresses: readonly Ip[];
  readonly hostPorts: readonly HostPort[];
}

/** Host ports of a pod, some of which are no longer served. */
interface LostHostPorts extends HostPortsOfPod {
  readonly lost: ReadonlySet<HostPort>;
}

/** Host port of a pod in one address family. */
interface TranslatedPort {
  readonly each: HostPort;
  readonly ip: Ip;
  readonly isLost?: boolean;
}

/** State of the node when connections that are no longer translated were last deleted. */
interface Forgotten {
  readonly own: ReadonlySet<string>;
  readonly lost: ReadonlySet<string>;
}

/**
 * Conntrack entries of the node that belong to host ports.
 *
 * A walk through the table takes the kernel more than 10 ms even if nothing is found, and a pod may have thousands of host ports. There is one
 * walk for all ports of a protocol and family, in a thread.
 */
export class HostPortConnections {
  readonly #routes: NetlinkSocket;
  readonly #tracker: NetlinkSocket;
  readonly #list: typeof listConnectionsOffThread;
  #work: Promise<unknown> = Promise.resolve();
  #forgotten: Forgotten | undefined;

  /**
   * Opens a socket to conntrack.
   *
   * @param routes socket of protocol `route` in the node's namespace; its owner closes it
   * @param list lists connections; tests count its calls
   */
  constructor(routes: NetlinkSocket, list = listConnectionsOffThread) {
    this.#routes = routes;
    this.#tracker = NetlinkSocket.open({ protocol: 'netfilter' });
    this.#list = list;
  }

  /** Closes the socket once present work has ended. */
  async close(): Promise<void> {
    await this.#inTurn(async () => await Promise.resolve(this.#tracker.close()));
  }

  /**
   * Deletes entries from before the change: a client that continues to send from one port would otherwise reach the previous pod, or none,
   * forever. TCP connections end by themselves.
   *
   * @returns number of deleted entries
   * @throws SeineError if conntrack cannot be read
   */
  async forget(pod: HostPortsOfPod, change: HostPortChange): Promise<number> {
    const isOwn = isOwnAmong(this.#ownAddresses());
    const ports = translatedPorts(pod).filter(({ each }) => each.transport !== 'tcp');
    return await this.#inTurn(
      async () => await this.#forgetWhere(ports, (connection, port) => isStale(connection, { ...port, change, isOwn })),
    );
  }

  /**
   * Deletes entries of any protocol that were translated to a pod at an address that the node no longer has, or at a port that the pod has
   * lost: conntrack would otherwise translate them forever. The table is read only if an address or a port was lost since the last call.
   *
   * @param pods all pods with host ports
   * @returns number of deleted entries
   * @throws SeineError if conntrack cannot be read
   */
  async forgetUntranslated(pods: readonly LostHostPorts[]): Promise<number> {
    return await this.#inTurn(async () => {
      const before = this.#forgotten;
      const all = pods.flatMap((pod) => translatedPorts(pod, pod.lost));
      const own = this.#ownAddresses();
      const now: Forgotten = { own, lost: new Set(all.filter(({ isLost }) => isLost).map(textOf)) };
      const isOwn = isOwnAmong(own);
      const hasLostAddress = before === undefined || [...before.own].some((text) => !own.has(text));
      const concerned = hasLostAddress ? all : all.filter((port) => port.isLost === true && !before.lost.has(textOf(port)));
      const deleted = await this.#forgetWhere(concerned, (connection, { isLost = false, ...port }) =>
        isUntranslated(connection, { ...port, isOwn, isLost }),
      );
      this.#forgotten = now;
      return deleted;
    });
  }

  #ownAddresses(): ReadonlySet<string> {
    return new Set(listAddresses(this.#routes).map(({ address }) => address.text));
  }

  /** The socket does one thing at a time. */
  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const work = this.#work.then(act);
    this.#work = work.catch(() => undefined);
    return await work;
  }

  async #forgetWhere(
    ports: readonly TranslatedPort[],
    isForgotten: (connection: TrackedConnection, port: TranslatedPort) => boolean,
  ): Promise<number> {
    let deleted = 0;
    for (const ofProtocol of Map.groupBy(ports, ({ each, ip }) => `${each.transport} ${ip.family}`).values()) {
      const byPort = Map.groupBy(ofProtocol, ({ each }) => each.hostPort);
      const found = await this.#connectionsTo(ofProtocol, byPort.size === 1);
      deleted += await this.#delete(
        found.filter((connection) => byPort.get(connection.original.dstPort)?.some((port) => isForgotten(connection, port)) === true),
      );
    }
    return deleted;
  }

  /** Lists connections to ports of one protocol and family. @param isOne true if they have one number, by which the kernel filters */
  async #connectionsTo([first]: readonly TranslatedPort[], isOne: boolean): Promise<readonly TrackedConnection[]> {
    if (!first) return [];
    const { each, ip } = first;
    const dstPort = isOne ? { dstPort: each.hostPort } : {};
    return await this.#list(this.#tracker, { family: ip.family, ipProtocol: ipProtocols[each.transport], ...dstPort });
  }

  async #delete(connections: readonly TrackedConnection[]): Promise<number> {
    let deleted = 0;
    for (let at = 0; at < connections.length; at += BATCH_SIZE) {
      const batch = new Batch();
      for (const each of connections.slice(at, at + BATCH_SIZE)) deleteConnection(batch, each);
      deleted += this.#tracker.attempt(batch).filter((error) => error === undefined).length;
      await nextTurn();
    }
    return deleted;
  }
}

/** Returns the ports in the families in which they are translated. */
function translatedPorts({ addresses, hostPorts }: HostPortsOfPod, lost: ReadonlySet<HostPort> = new Set()): readonly TranslatedPort[] {
  return addresses.flatMap((ip) =>
    hostPorts.filter((each) => placeOf(each, ip.family) !== undefined).map((each) => ({ each, ip, isLost: lost.has(each) })),
  );
}

function textOf({ each, ip }: TranslatedPort): string {
  return `${ip.text} ${each.hostIp?.text ?? ''} ${each.transport} ${each.hostPort}`;
}

function isOwnAmong(own: ReadonlySet<string>): (ip: Ip) => boolean {
  return ({ text }) => own.has(text) || text.startsWith('127.');
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
