import { createServer, type Server, type Socket } from 'node:net';
import { ConnectionLimit } from '../../base/async/connection-limit.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { pause } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { WatchedUnixSocket } from '../../base/files/watched-unix-socket.ts';
import type { Log } from '../../base/log/log.ts';
import { type HostPortCheck, openHostPort } from '../../dataplane/compile/host-port.ts';
import { descriptorOf } from '../../netlink/sockets/unix-peer.ts';
import { type DelegatedIpam, delegatedIpam } from '../ipam/delegated-ipam.ts';
import type { Ipam } from '../ipam/ipam.ts';
import type { Lease } from '../ipam/lease.ts';
import type { PodLookup } from '../network/node-pods.ts';
import { CniCalls, type ServedCall } from './calls.ts';
import { serveConnection } from './connection.ts';
import { RecordedDeletions } from './deletions.ts';
import type { PodNetwork } from './pod-network.ts';

export interface CniServerOptions {
  readonly socketPath: string;
  /** Directory in which plugins record DELs if no agent answers. */
  readonly stateDir: string;
  readonly ipam: Ipam;
  readonly network: PodNetwork;
  /** Lookup of pods that are to be attached; if absent, their existence is not checked. */
  readonly pods?: PodLookup;
  /** Returns SO_PEERCRED of a connected unix socket. */
  readonly peerCredentials: (fd: number) => { readonly pid: number; readonly uid: number };
  /** True if STATUS fails when no address is left; newer runtimes then make the node NotReady. Default: true. */
  readonly reportPoolExhausted?: boolean;
  /** Runner of other IPAM plugins. Default: runs their programs as libcni does. */
  readonly delegatedIpam?: DelegatedIpam;
  /** Check for other owners of host ports. Default: there are none. */
  readonly hostPortCheck?: HostPortCheck;
  readonly log: Log;
  /** Shares the event loop between the long jobs of the process; absent if there are none. */
  readonly turns?: LoopTurns;
  /** Reports whether the plugin must make the namespace of pre-plugged ports. Default: never. */
  readonly pinPorts?: () => boolean;
  /** Called with every served call, for metrics. */
  readonly onCall?: (call: ServedCall) => void;
}

/** Maximum number of plugins served concurrently. While all of them wait for the agent, further ones are refused and retry. */
const connectionsMax = 1024;
/** Kernel queue of connections that are not accepted yet; a burst of pods must not be refused. */
const backlog = 512;
/** Period of the check for recorded DELs (ms). They are rare: some exist when the agent becomes ready, others if it hung meanwhile. */
const deletionsIntervalMs = 10_000;
/** Retry period of the first check (ms), for which ADDs wait. */
const deletionsRetryMs = 500;

/** Server side of the plugin's socket. */
export class CniServer {
  readonly #options: CniServerOptions;
  readonly #calls: CniCalls;
  #socket: WatchedUnixSocket | undefined;
  readonly #connections = new ConnectionLimit({ most: connectionsMax });
  readonly #serving = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #deletions: Promise<void> = Promise.resolve();

  /**
   * Listens on a socket with mode 0600 in a directory with mode 0700, which is made if necessary. A socket left by a dead agent is
   * replaced.
   *
   * @throws SeineError `REFUSED` if another agent listens there, `UNAVAILABLE` if the system does not permit it
   */
  static async start(options: CniServerOptions): Promise<CniServer> {
    const server = new CniServer(options);
    server.#socket = await server.#listen();
    server.#deletions = server.#settleDeletions();
    return server;
  }

  private constructor(options: CniServerOptions) {
    const { ipam, network, pods, stateDir, turns, onCall, pinPorts, log, reportPoolExhausted = true } = options;
    const deletions = new RecordedDeletions(stateDir, log);
    this.#options = options;
    const delegated = options.delegatedIpam ?? delegatedIpam;
    const { hostPortCheck = () => openHostPort } = options;
    const ours = { deletions, delegatedIpam: delegated, hostPortCheck };
    this.#calls = new CniCalls({ ipam, network, log, ...ours, reportPoolExhausted, pods, turns, onCall, pinPorts });
  }

  /** Does the work of a DEL for a deleted pod whose DEL has not arrived. @throws CniError 102; the call can then be repeated */
  async abandon(lease: Lease, signal: AbortSignal): Promise<void> {
    await this.#calls.abandon(lease, signal);
  }

  /** Stops listening and disconnects every plugin. Calls in progress are undone, and the plugins retry with the next agent. */
  async close(): Promise<void> {
    this.#closed.abort(new SeineError('CANCELLED', 'the agent stops'));
    const closed = this.#socket?.close();
    this.#connections.closeAll();
    await closed;
    await Promise.all([...this.#serving, this.#deletions]);
  }

  /** Listens. Calls in progress continue if the socket is recreated. */
  async #listen(): Promise<WatchedUnixSocket> {
    const { socketPath: path, log } = this.#options;
    const make = (): Server => createServer((socket) => this.#accept(socket));
    const without = 'the CNI socket cannot be created; plugins cannot reach the agent';
    return await WatchedUnixSocket.listen({ path, name: 'CNI socket', without, backlog, make, log });
  }

  #accept(socket: Socket): void {
    if (!this.#connections.admit(socket)) return;
    const serving = this.#serve(socket)
      .catch((thrown: unknown) =>
        this.#options.log.warn('CNI connection failed', { cause: SeineError.from(thrown, 'serve a plugin').message }),
      )
      .finally(() => {
        this.#serving.delete(serving);
      });
    this.#serving.add(serving);
  }

  async #serve(socket: Socket): Promise<void> {
    const { uid, pid } = this.#options.peerCredentials(descriptorOf(socket));
    if (uid !== 0) {
      socket.destroy();
      throw new SeineError('REFUSED', 'only root may call', { context: { uid, pid } });
    }
    await serveConnection(socket, this.#calls, this.#connections);
  }

  async #settleDeletions(): Promise<void> {
    const { signal } = this.#closed;
    const { network, log } = this.#options;
    let intervalMs = deletionsRetryMs;
    while (!signal.aborted) {
      try {
        await network.whenReady(signal);
        await this.#calls.settleDeletions(signal);
        intervalMs = deletionsIntervalMs;
        log.working('recorded DELs');
      } catch (thrown) {
        const { message: cause } = SeineError.from(thrown, 'settle deletions');
        if (!signal.aborted) log.failing('recorded DELs', 'recorded DELs are not done yet', { cause });
      }
      await pause(intervalMs, signal);
    }
  }
}
