import { chmodSync, existsSync } from 'node:fs';
import type { Server } from 'node:net';
import { dirname } from 'node:path';
import { pause } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import { privateFolder } from '../files/private-folder.ts';
import { removeStaleSocket } from '../files/stale-socket.ts';
import type { Log } from '../log/log.ts';

export interface KeptSocketOptions {
  readonly path: string;
  /** For the log: `CNI socket`. */
  readonly name: string;
  /** For the log: what it means when it cannot be made. */
  readonly without: string;
  /** The kernel's queue of connections not yet accepted; left out, Node's. */
  readonly backlog?: number;
  /** A new server for each time the socket is made. Its connections are the maker's, and outlive it. */
  readonly make: () => Server;
  readonly log: Log;
  /** How often to look whether the socket is still there (ms). */
  readonly lookMs?: number;
}

const lookMsUsual = 2_000;

/**
 * A socket 0600 in a folder 0700 that stays where it is looked for: somebody may remove it, and the agent would go on listening where
 * nobody finds it, ready and alive by all it says of itself.
 */
export class KeptSocket {
  readonly #options: KeptSocketOptions;
  readonly #closed = new AbortController();
  #server: Server | undefined;
  #keeping: Promise<void> = Promise.resolve();

  /**
   * Makes folder and socket. A socket that an agent left behind when it died is replaced.
   *
   * @throws SeineError `REFUSED` if another agent listens there, `UNAVAILABLE` if the system does not let us, `INVALID_INPUT` if the path
   *   cannot be a socket's or is something else
   */
  static async listen(options: KeptSocketOptions): Promise<KeptSocket> {
    const socket = new KeptSocket(options);
    await socket.#listen();
    socket.#keeping = socket.#keep();
    return socket;
  }

  private constructor(options: KeptSocketOptions) {
    this.#options = options;
  }

  /** Removes the socket at once; done when the last connection that came by it has ended, which the maker sees to. */
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
    // A connection that could not be accepted: its client tries again.
    server.on('error', ({ message: cause }) => log.failing(`${name} accepts`, 'a connection was not accepted', { path, cause }, 'error'));
    this.#server = server; // to be closed, whatever comes now
    chmodSync(path, 0o600);
    return server;
  }

  async #keep(): Promise<void> {
    const { signal } = this.#closed;
    const { path, name, without, log, lookMs = lookMsUsual } = this.#options;
    for (;;) {
      await pause(lookMs, signal);
      if (signal.aborted) return;
      if (this.#server && existsSync(path)) continue;
      if (this.#server) log.warn('a socket is gone; it is made anew', { socket: name, path });
      try {
        this.#server?.close(); // it would remove the new one otherwise, whenever it is closed
        this.#server = undefined;
        const made = await this.#listen();
        if (signal.aborted) made.close(); // whoever closed us found none
        log.working(name);
      } catch (thrown) {
        log.failing(name, without, { path, cause: SeineError.from(thrown, 'listen').message }, 'error');
      }
    }
  }
}
