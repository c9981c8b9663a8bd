import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../errors/seine-error.ts';
import type { Log } from '../../log/log.ts';
import type { Ip } from '../../net/ip.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../../netlink/conntrack.ts';
import { Batch } from '../../netlink/message.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { OpenFlowConnection } from '../../openflow/connection.ts';
import { writeConntrackFlush } from '../../openflow/conntrack-flush.ts';
import { nodePortAddress } from '../../pipeline/well-known.ts';
import { ByteWriter } from '../../wire/bytes.ts';
import type { Stale, StaleConnections, StaleHostConnections } from './stale-connections.ts';

/**
 * When connections are forgotten, in ms after the switch acknowledged the change. A packet that was under way through the old
 * flows, or through the data path's cache of them, makes its entry anew: the cache is as new as the flows some milliseconds later,
 * half a second when much is in it (ovs-vswitchd.conf.db(5) `max-revalidator`).
 */
const AFTER_MS = [0, 40, 600] as const;
/** Of changes that wait to be cleaned up after; the switch walks its whole table for each. */
const WAITING_MAX = 20_000;

export interface ConnectionCleanerOptions {
  readonly bridge: Pick<OpenFlowConnection, 'send' | 'barrier' | 'untilUp'>;
  /** Of protocol `netfilter`. */
  readonly host: NetlinkSocket;
  /** Whether an address is the node's. */
  readonly isOwn: (ip: Ip) => boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Forgets connections that lead nowhere, in the bridge's tracker and in the node's. */
export class ConnectionCleaner {
  readonly #options: ConnectionCleanerOptions;
  #waiting = 0;
  #forgotten = { bridge: 0, host: 0, failures: 0, dropped: 0 };

  constructor(options: ConnectionCleanerOptions) {
    this.#options = options;
  }

  /** `bridge`: requests, each for any number of connections; `host`: connections. */
  get counters(): { readonly bridge: number; readonly host: number; readonly failures: number; readonly dropped: number } {
    return this.#forgotten;
  }

  /** @param acknowledged resolves when the switch no longer makes such connections; if it rejects, nothing is forgotten */
  clean(stale: Stale, acknowledged: Promise<void>): void {
    const size = stale.bridge.length + stale.host.length;
    if (size === 0) return;
    if (this.#waiting + size > WAITING_MAX) {
      this.#forgotten.dropped += size;
      this.#options.log.warn('too many stale connections wait to be forgotten; some are left to time out', { waiting: this.#waiting });
      return;
    }
    this.#waiting += size;
    this.#run(stale, acknowledged)
      .catch((thrown: unknown) => this.#failed(thrown))
      .finally(() => {
        this.#waiting -= size;
      });
  }

  async #run({ bridge, host }: Stale, acknowledged: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    await acknowledged;
    let passedMs = 0;
    for (const atMs of AFTER_MS) {
      if (atMs > passedMs) await sleep(atMs - passedMs, undefined, { signal, ref: false });
      passedMs = atMs;
      this.#forgetInHost(host);
      await this.#forgetInBridge(bridge);
    }
  }

  async #forgetInBridge(stale: readonly StaleConnections[]): Promise<void> {
    const { bridge, signal } = this.#options;
    if (stale.length === 0) return;
    await bridge.untilUp(signal);
    await bridge.send(stale.map(flushMessage), signal);
    await bridge.barrier(signal);
    this.#forgotten.bridge += stale.length;
  }

  #forgetInHost(stale: readonly StaleHostConnections[]): void {
    for (const { ipProtocol, address } of stale) {
      const { family } = address.ip;
      const found = listConnections(this.#options.host, { family, ipProtocol, dstPort: address.port });
      const batch = new Batch();
      for (const connection of found) if (isStale(connection, address, this.#options.isOwn)) deleteConnection(batch, connection);
      if (batch.entries.length === 0) continue;
      // One that ended meanwhile is as good as forgotten.
      this.#forgotten.host += this.#options.host.attempt(batch).filter((error) => error === undefined).length;
    }
  }

  #failed(thrown: unknown): void {
    if (this.#options.signal.aborted) return;
    this.#forgotten.failures++;
    const cause = SeineError.from(thrown, 'forget connections');
    this.#options.log.warn('stale connections could not be forgotten', { cause: cause.message });
  }
}

function flushMessage({ zone, ipProtocol, address, endpoint }: StaleConnections): Uint8Array {
  const w = new ByteWriter(128);
  const reply = endpoint && { src: endpoint.ip, srcPort: endpoint.port };
  writeConntrackFlush(w, { zone, ipProtocol, original: { dst: address.ip, dstPort: address.port }, ...(reply ? { reply } : {}) });
  return w.finish();
}

/** Of zone 0, which is the node's own. Of a node port: what was translated to the virtual address, or should have been. */
function isStale(
  { zone, original, reply }: TrackedConnection,
  { kind, ip }: StaleHostConnections['address'],
  isOwn: (ip: Ip) => boolean,
): boolean {
  if (zone !== 0) return false;
  if (kind !== 'nodePort') return original.dst.text === ip.text;
  return reply.src.text === nodePortAddress[ip.family].text || (reply.src.text === original.dst.text && isOwn(original.dst));
}
