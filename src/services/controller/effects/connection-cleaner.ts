import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import type { Owner } from '../../../dataplane/pipeline/cookie.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { writeConntrackFlush } from '../../../openflow/conntrack-flush.ts';
import { endpointKey, type ServiceIntent } from '../../compile/service-intent.ts';
import type { ServiceChange, ServiceSubscriber } from '../service-changes.ts';
import { CleanQueue } from './clean-queue.ts';
import type { HostConnections } from './host-connections.ts';
import {
  ipProtocols,
  isServedAgain,
  moreConnections,
  type Stale,
  type StaleConnections,
  type StaleHostConnections,
  type StaleOptions,
  servedKey,
  staleAfter,
} from './stale-connections.ts';
import { WholeAddresses } from './whole-addresses.ts';

/**
 * Times when connections are deleted (ms after OVS acknowledged the change). A packet in transit through the old flows, or through the data
 * path's cache of them, creates its entry again: the cache is updated some milliseconds after the flows, or half a second if it is large
 * (ovs-vswitchd.conf.db(5) `max-revalidator`).
 */
const AFTER_MS = { endpoint: [0, 40, 600], address: [0, 600] } as const;
/** Maximum number of waiting requests; OVS walks its whole table for each. */
const WAITING_MAX = 20_000;

interface ConnectionCleanerOptions {
  readonly bridge: Pick<OpenFlowConnection, 'send' | 'barrier' | 'untilUp'>;
  readonly host: Pick<HostConnections, 'forget'>;
  /** True if TCP connections to a removed endpoint are deleted too. If omitted, they continue until they end. */
  readonly forgetTCPConnections?: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Deletes stale connections from the bridge's connection tracking and the node's. What is due at one time is done in one pass for the node,
 * and in short passes for the bridge. A failed request is retried until it succeeds or its connections belong to something that is served again.
 *
 * A lost answer counts as a failure: a connection cannot be deleted twice, and those that clients have opened since lead to endpoints that
 * are served.
 */
export class ConnectionCleaner implements ServiceSubscriber {
  readonly #options: ConnectionCleanerOptions;
  /** Transports whose connections are deleted. */
  readonly transports: StaleOptions['transports'];
  readonly #bridge: CleanQueue<StaleConnections>;
  readonly #host: CleanQueue<StaleHostConnections>;
  readonly #served = new Map<string, ServiceIntent>();
  readonly #whole: WholeAddresses;
  /** Owners of the ports in `#served`. */
  readonly #servedBy = new Map<string, Owner>();
  #forgotten = { bridge: 0, host: 0, failures: 0 };

  constructor(options: ConnectionCleanerOptions) {
    this.#options = options;
    this.transports = options.forgetTCPConnections ? ['udp', 'sctp', 'tcp'] : ['udp', 'sctp'];
    this.#whole = new WholeAddresses(this.transports);
    const { signal } = options;
    this.#bridge = new CleanQueue({
      keyOf: bridgeKey,
      waitingMax: WAITING_MAX,
      coarser: moreConnections,
      tooMany: () => this.#tooMany(),
      isOutOfDate: (stale) => isServedAgain(stale, this.#served.get(servedKey(stale.ipProtocol, stale.address))),
      // OVS walks its table for each: packets, and changes of other Services, which use the same connection, wait meanwhile.
      costsEach: true,
      pass: (due) => this.#forgetInBridge(due),
      failed: (thrown) => this.#failed(thrown, 'bridge'),
      signal,
    });
    this.#host = new CleanQueue({
      keyOf: hostKey,
      waitingMax: WAITING_MAX,
      coarser: () => undefined,
      isOutOfDate: () => false,
      pass: (due) => this.#forgetInHost(due),
      failed: (thrown) => this.#failed(thrown, 'host'),
      signal,
    });
  }

  /**
   * Numbers of deletions. `bridge`: requests, each for any number of connections; `host`: connections; `merged`: requests that became one
   * for more connections, because too many were waiting.
   */
  get counters(): { readonly bridge: number; readonly host: number; readonly failures: number; readonly merged: number } {
    return { ...this.#forgotten, merged: this.#bridge.merged };
  }

  /** Number of requests to be made or repeated. */
  get waiting(): number {
    return this.#bridge.waiting + this.#host.waiting;
  }

  /** Ports of `transports` that are served now, by `servedKey`. */
  get served(): ReadonlyMap<string, ServiceIntent> {
    return this.#served;
  }

  changed(change: ServiceChange, acknowledged: Promise<void>): void {
    const { key, ports, occasion } = change;
    const options: StaleOptions = { transports: this.transports, newServices: occasion === 'news' ? 'flushed' : 'kept' };
    const stale = ports.map(({ owner, was, is }) => {
      this.#noteServed(owner, was, is);
      return staleAfter(was, is, options);
    });
    const bridge = this.#whole.changed(
      change,
      stale.flatMap((each) => each.bridge),
    );
    this.clean({ bridge, host: stale.flatMap(({ host }) => host) }, acknowledged, namespaceOf(key));
  }

  /**
   * @param acknowledged resolves when OVS no longer creates such connections; if it rejects, nothing is deleted
   * @param namespace of the Services; none of them waits for all connections of another namespace's
   */
  clean({ bridge, host }: Stale, acknowledged: Promise<void>, namespace = ''): void {
    if (bridge.length + host.length === 0) return;
    acknowledged.then(
      () => {
        const byKind = Map.groupBy(bridge, ({ endpoint }) => (endpoint ? 'endpoint' : 'address'));
        for (const [kind, stale] of byKind) this.#bridge.add(stale, AFTER_MS[kind], namespace);
        this.#host.add(host, AFTER_MS.address, namespace);
      },
      () => undefined, // the agent stops
    );
  }

  /** Records the port that serves an address. An address may belong to another port before the removal from this one is reported. */
  #noteServed(owner: Owner, was: ServiceIntent | undefined, is: ServiceIntent | undefined): void {
    for (const key of this.#keysOf(was)) {
      if (this.#servedBy.get(key) !== owner) continue;
      this.#servedBy.delete(key);
      this.#served.delete(key);
    }
    if (is === undefined) return;
    for (const key of this.#keysOf(is)) {
      this.#servedBy.set(key, owner);
      this.#served.set(key, is);
    }
  }

  #keysOf(intent: ServiceIntent | undefined): readonly string[] {
    if (intent === undefined || !this.transports.includes(intent.transport)) return [];
    return intent.addresses.map((address) => servedKey(ipProtocols[intent.transport], address));
  }

  async #forgetInBridge(stale: readonly StaleConnections[]): Promise<void> {
    const { bridge, signal } = this.#options;
    await bridge.untilUp(signal);
    await bridge.send(stale.map(flushMessage), signal);
    await bridge.barrier(signal);
    this.#forgotten.bridge += stale.length;
    this.#options.log.working('connections bridge');
  }

  #forgetInHost(stale: readonly StaleHostConnections[]): void {
    this.#forgotten.host += this.#options.host.forget(stale);
    this.#options.log.working('connections host');
  }

  #tooMany(): void {
    const message = 'too many stale connections wait for deletion; further connections to the same Services are deleted, too';
    this.#options.log.failing('connection queue', message, { waiting: this.#bridge.waiting, cause: 'too many' });
  }

  #failed(thrown: unknown, where: 'bridge' | 'host'): void {
    if (this.#options.signal.aborted) return;
    this.#forgotten.failures++;
    const { message: cause } = SeineError.from(thrown, 'forget connections');
    this.#options.log.failing(`connections ${where}`, 'stale connections could not be forgotten; trying again', { cause });
  }
}

function namespaceOf(service: string): string {
  return service.slice(0, service.indexOf('/'));
}

function bridgeKey({ zone, ipProtocol, address: { ip, port }, endpoint, allPorts }: StaleConnections): string {
  return `${zone} ${ipProtocol} ${ip.text} ${allPorts ? 'all' : port} ${endpoint && endpointKey(endpoint)}`;
}

function hostKey({ ipProtocol, address: { kind, ip, port } }: StaleHostConnections): string {
  return `${ipProtocol} ${kind} ${ip.text} ${port}`;
}

function flushMessage({ zone, ipProtocol, address, endpoint, allPorts }: StaleConnections): Uint8Array {
  const w = new ByteWriter(128);
  const reply = endpoint && { src: endpoint.ip, srcPort: endpoint.port };
  const original = { dst: address.ip, ...(!allPorts && { dstPort: address.port }) };
  writeConntrackFlush(w, { zone, ipProtocol, original, ...(reply ? { reply } : {}) });
  return w.finish();
}
