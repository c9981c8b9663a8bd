import { idle } from '../../async/pause.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Log } from '../../log/log.ts';
import type { Ip } from '../../net/ip.ts';
import { deleteConnection, listConnections, type TrackedConnection } from '../../netlink/conntrack.ts';
import { Batch } from '../../netlink/message.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { OpenFlowConnection } from '../../openflow/connection.ts';
import { writeConntrackFlush } from '../../openflow/conntrack-flush.ts';
import { nodePortAddress } from '../../pipeline/well-known.ts';
import { endpointKey } from '../../proxy/service-intent.ts';
import { ByteWriter } from '../../wire/bytes.ts';
import { changedPorts, type ServiceChange, type ServiceSubscriber } from '../service-changes.ts';
import { type Stale, type StaleConnections, type StaleHostConnections, type StaleOptions, staleAfter } from './stale-connections.ts';

/**
 * When connections are forgotten, in ms after the switch acknowledged the change. A packet that was under way through the old
 * flows, or through the data path's cache of them, makes its entry anew: the cache is as new as the flows some milliseconds later,
 * half a second when much is in it (ovs-vswitchd.conf.db(5) `max-revalidator`).
 */
const AFTER_MS = { endpoint: [0, 40, 600], address: [0, 600] } as const;
/** Of changes that wait to be cleaned up after; the switch walks its whole table for each. */
const WAITING_MAX = 20_000;
/** A walk through the kernel's table takes 13 ms when it has 262,144 buckets, however few are used: a fifth of our time and no more. */
const REST_FOR_EACH_PASS = 4;

interface ConnectionCleanerOptions {
  readonly bridge: Pick<OpenFlowConnection, 'send' | 'barrier' | 'untilUp'>;
  /** Of protocol `netfilter`. */
  readonly host: NetlinkSocket;
  /** Whether an address is the node's. */
  readonly isOwn: (ip: Ip) => boolean;
  /** TCP connections to an endpoint that is gone are forgotten too. Left out: they go on until they end. */
  readonly forgetTCPConnections?: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

type CleanTask =
  | { readonly dueMs: number; readonly where: 'bridge'; readonly stale: StaleConnections }
  | { readonly dueMs: number; readonly where: 'host'; readonly stale: StaleHostConnections };

/**
 * Forgets connections that lead nowhere, in the bridge's tracker and in the node's. What is due at one time is done in one pass,
 * for however many Services it is.
 */
export class ConnectionCleaner implements ServiceSubscriber {
  readonly #options: ConnectionCleanerOptions;
  #tasks: CleanTask[] = [];
  #isWorking = false;
  #forgotten = { bridge: 0, host: 0, failures: 0, dropped: 0 };

  constructor(options: ConnectionCleanerOptions) {
    this.#options = options;
  }

  /** `bridge`: requests, each for any number of connections; `host`: connections. */
  get counters(): { readonly bridge: number; readonly host: number; readonly failures: number; readonly dropped: number } {
    return this.#forgotten;
  }

  changed(change: ServiceChange, acknowledged: Promise<void>): void {
    const options: StaleOptions = {
      transports: this.#options.forgetTCPConnections ? ['udp', 'sctp', 'tcp'] : ['udp', 'sctp'],
      newServices: change.occasion === 'news' ? 'flushed' : 'kept',
    };
    const stale = Array.from(changedPorts(change), ({ was, is }) => staleAfter(was, is, options));
    this.clean({ bridge: stale.flatMap(({ bridge }) => bridge), host: stale.flatMap(({ host }) => host) }, acknowledged);
  }

  /** @param acknowledged resolves when the switch no longer makes such connections; if it rejects, nothing is forgotten */
  clean({ bridge, host }: Stale, acknowledged: Promise<void>): void {
    if (bridge.length + host.length === 0) return;
    acknowledged.then(
      () => this.#plan(bridge, host),
      () => undefined, // the agent stops
    );
  }

  #plan(bridge: readonly StaleConnections[], host: readonly StaleHostConnections[]): void {
    if (this.#tasks.length + bridge.length + host.length > WAITING_MAX) {
      this.#forgotten.dropped += bridge.length + host.length;
      this.#options.log.failing('connection queue', 'too many stale connections wait to be forgotten; some are left to time out', {
        waiting: this.#tasks.length,
        cause: 'too many',
      });
      return;
    }
    const nowMs = performance.now();
    for (const stale of bridge)
      for (const afterMs of AFTER_MS[stale.endpoint ? 'endpoint' : 'address'])
        this.#tasks.push({ dueMs: nowMs + afterMs, where: 'bridge', stale });
    for (const stale of host) for (const afterMs of AFTER_MS.address) this.#tasks.push({ dueMs: nowMs + afterMs, where: 'host', stale });
    if (!this.#isWorking) void this.#work();
  }

  /** Never rejects: what cannot be forgotten now is counted, and times out. */
  async #work(): Promise<void> {
    const { signal } = this.#options;
    this.#isWorking = true;
    while (this.#tasks.length > 0 && !signal.aborted) {
      const beginMs = performance.now();
      const due = this.#tasks.filter(({ dueMs }) => dueMs <= beginMs);
      this.#tasks = this.#tasks.filter(({ dueMs }) => dueMs > beginMs);
      await this.#pass(due).catch((thrown: unknown) => this.#failed(thrown));
      const endMs = performance.now();
      const next = Math.min(...this.#tasks.map(({ dueMs }) => dueMs));
      const restMs = Math.max(next - endMs, due.length > 0 ? REST_FOR_EACH_PASS * (endMs - beginMs) : 0);
      if (this.#tasks.length > 0) await idle(restMs, signal);
    }
    this.#isWorking = false;
  }

  async #pass(due: readonly CleanTask[]): Promise<void> {
    const [bridge, host] = [due.flatMap(bridgeTask), due.flatMap(hostTask)];
    if (bridge.length > 0) await this.#forgetInBridge(bridge);
    if (host.length > 0) this.#forgetInHost(host);
  }

  async #forgetInBridge(stale: readonly StaleConnections[]): Promise<void> {
    const { bridge, signal } = this.#options;
    const messages = new Map(stale.map((each) => [bridgeKey(each), each]));
    await bridge.untilUp(signal);
    await bridge.send([...messages.values()].map(flushMessage), signal);
    await bridge.barrier(signal);
    this.#forgotten.bridge += stale.length;
  }

  /** One walk through the table for each family and protocol. */
  #forgetInHost(all: readonly StaleHostConnections[]): void {
    const { host, isOwn } = this.#options;
    for (const same of Map.groupBy(all, ({ ipProtocol, address: { ip } }) => `${ipProtocol} ${ip.family}`).values()) {
      const [first] = same;
      if (!first) continue;
      const { ipProtocol, address } = first;
      const byPort = Map.groupBy(same, (each) => each.address.port);
      const only = byPort.size === 1 ? { dstPort: address.port } : {};
      const batch = new Batch();
      for (const connection of listConnections(host, { family: address.ip.family, ipProtocol, ...only }))
        if (byPort.get(connection.original.dstPort)?.some((stale) => isStale(connection, stale.address, isOwn)))
          deleteConnection(batch, connection);
      // One that ended meanwhile is as good as forgotten.
      if (batch.entries.length > 0) this.#forgotten.host += host.attempt(batch).filter((error) => error === undefined).length;
    }
  }

  #failed(thrown: unknown): void {
    if (this.#options.signal.aborted) return;
    this.#forgotten.failures++;
    const cause = SeineError.from(thrown, 'forget connections');
    this.#options.log.failing('connections', 'stale connections could not be forgotten', { cause: cause.message });
  }
}

function bridgeTask(task: CleanTask): readonly StaleConnections[] {
  return task.where === 'bridge' ? [task.stale] : [];
}

function hostTask(task: CleanTask): readonly StaleHostConnections[] {
  return task.where === 'host' ? [task.stale] : [];
}

function bridgeKey({ zone, ipProtocol, address: { ip, port }, endpoint }: StaleConnections): string {
  return `${zone} ${ipProtocol} ${ip.text} ${port} ${endpoint && endpointKey(endpoint)}`;
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
