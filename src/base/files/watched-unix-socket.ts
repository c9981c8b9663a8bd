import { chmodSync, existsSync } from 'node:fs';
import type { Server } from 'node:net';
import { dirname } from 'node:path';
import { pause } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { privateFolder } from './private-folder.ts';
import { removeStaleSocket } from './stale-socket.ts';

interface WatchedUnixSocketOptions {
  readonly path: string;
  /** Name for the log, such as `CNI socket`. */
  readonly name: string;
  /** Consequence if the socket cannot be made, for the log. */
  readonly without: string;
  /** Kernel queue of connections that are not accepted yet. Default: that of Node. */
  readonly backlog?: number;
  /** Makes a new server whenever the socket is made. Its connections belong to the caller, and outlive it. */
  readonly make: () => Server;
  readonly log: Log;
  /** Period of the check that the socket still exists (ms). */
  readonly checkMs?: number;
}

const DEFAULT_CHECK_MS = 2_000;

/**
 * Socket with mode 0600 in a directory with mode 0700 that is recreated when it is removed: otherwise the agent would continue to listen
 * where no client finds it, and report itself ready and alive.
 */
export class WatchedUnixSocket {
  readonly #options: WatchedUnixSocketOptions;
  readonly #closed = new AbortController();
  #server: Server | undefined;
  #keeping: Promise<void> = Promise.resolve();

  /**
   * Makes directory and socket. The socket of a dead agent is replaced.
   *
   * @throws SeineError `REFUSED` if another agent listens there, `UNAVAILABLE` if the system refuses, `INVALID_INPUT` if the path cannot be
   * that of a socket or is something else
   */
  static async listen(options: WatchedUnixSocketOptions): Promise<WatchedUnixSocket> {
    const socket = new WatchedUnixSocket(options);
    await socket.#listen();
    socket.#keeping = socket.#keep();
    return socket;
  }

  private constructor(options: WatchedUnixSocketOptions) {
    this.#options = options;
  }

  /** Removes the socket at once; resolves when the last of its connections has ended, which is up to the caller. */
  async close(): Promise<void> {
    this.#closed.abort(new SeineError('CANCELLED', 'the agent stops'));
    const server = this.#server;
    await Promise.all([this.#keeping, new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))]);
  }

  async #listen(): Promise<Server> {
    const { path, name, backlog, make, log } = this.#options;
    privateFolder(dirname(path));
    await removeStaleSocket(path);
    const server = make();
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => reject(SeineError.from(error, `listen on ${path}`)));
      server.listen({ path, ...(backlog === undefined ? {} : { backlog }) }, resolve);
    });
    // A connection could not be accepted: its client retries.
    server.on('error', ({ message: cause }) => log.failing(`${name} accepts`, 'a connection was not accepted', { path, cause }, 'error'));
    this.#server = server; // stored first, so that it is closed if the next call fails
    chmodSync(path, 0o600);
    return server;
  }

  async #keep(): Promise<void> {
    const { signal } = this.#closed;
    const { path, name, without, log, checkMs = DEFAULT_CHECK_MS } = this.#options;
    for (;;) {
      await pause(checkMs, signal);
      if (signal.aborted) return;
      if (this.#server && existsSync(path)) continue;
      if (this.#server) log.warn('socket was removed; creating it again', { socket: name, path });
      try {
        this.#server?.close(); // otherwise it would remove the new one when it is closed
        this.#server = undefined;
        const made = await this.#listen();
        if (signal.aborted) made.close(); // `close` has found no server to close
        log.working(name);
      } catch (thrown) {
        log.failing(name, without, { path, cause: SeineError.from(thrown, 'listen').message }, 'error');
      }
    }
  }
}
