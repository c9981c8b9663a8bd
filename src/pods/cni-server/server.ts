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
  /** Where plugins record DELs that found no agent. */
  readonly stateDir: string;
  readonly ipam: Ipam;
  readonly network: PodNetwork;
  /** Whether the pods that are to be attached exist; left out, that is not checked. */
  readonly pods?: PodLookup;
  /** SO_PEERCRED of a connected unix socket. */
  readonly peerCredentials: (fd: number) => { readonly pid: number; readonly uid: number };
  /** Whether STATUS fails when no address is left; newer runtimes make the node NotReady then. True if left out. */
  readonly reportPoolExhausted?: boolean;
  /** Other IPAM plugins; left out, their programs are run as libcni does. */
  readonly delegatedIpam?: DelegatedIpam;
  /** Who besides pods has ports of the node; left out: nobody. */
  readonly hostPortCheck?: HostPortCheck;
  readonly log: Log;
  /** Shares the loop between the long jobs of the process; left out: there are none. */
  readonly turns?: LoopTurns;
  /** Whether the plugin is to make the namespace of standing ports; left out: never. */
  readonly pinPorts?: () => boolean;
  /** For metrics: every call that was served. */
  readonly onCall?: (call: ServedCall) => void;
}

/** Plugins that are served at a time. While all of these wait for the agent, further ones are refused and try again. */
const connectionsMax = 1024;
/** The kernel's queue of connections not yet accepted; a burst of pods must not be refused. */
const backlog = 512;
/** Recorded DELs are rare: an agent looks when it becomes ready, and then every so often for those recorded while it hung. */
const deletionsIntervalMs = 10_000;
/** ADDs wait for the first look. */
const deletionsRetryMs = 500;

/** The agent's end of the plugin's socket. */
export class CniServer {
  readonly #options: CniServerOptions;
  readonly #calls: CniCalls;
  #socket: WatchedUnixSocket | undefined;
  readonly #connections = new ConnectionLimit({ most: connectionsMax });
  readonly #serving = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #deletions: Promise<void> = Promise.resolve();

  /**
   * Listens on a socket 0600 in a folder 0700, made if need be. A socket that an agent left behind when it died is replaced.
   *
   * @throws SeineError `REFUSED` if another agent listens there, `UNAVAILABLE` if the system does not let us
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

  /** What a DEL would do, for a pod that is gone and whose DEL has not come. @throws CniError 102; then it can be tried again */
  async abandon(lease: Lease, signal: AbortSignal): Promise<void> {
    await this.#calls.abandon(lease, signal);
  }

  /** Stops listening and lets go of every plugin; what they were waiting for is taken back, and they try again with the next agent. */
  async close(): Promise<void> {
    this.#closed.abort(new SeineError('CANCELLED', 'the agent stops'));
    const closed = this.#socket?.close();
    this.#connections.closeAll();
    await closed;
    await Promise.all([...this.#serving, this.#deletions]);
  }

  /** Calls that are served go on when the socket is made anew. */
  async #listen(): Promise<WatchedUnixSocket> {
    const { socketPath: path, log } = this.#options;
    const make = (): Server => createServer((socket) => this.#accept(socket));
    const without = 'no plugin reaches the agent: its socket cannot be made';
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
