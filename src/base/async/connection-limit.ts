import type { Socket } from 'node:net';

interface ConnectionLimitOptions {
  /** Maximum number of connections. At this number a new connection closes the oldest one that waits for its client. */
  readonly most: number;
  /** Time for which a connection may have no complete request, from its start or from its last reply (ms). */
  readonly requestMs?: number;
  /** The same from the last reply, if that may be longer (ms). */
  readonly keptMs?: number;
  /** Total time for which a reply may wait for a client that does not read it (ms). */
  readonly answerMs?: number;
}

/**
 * Default of `requestMs`. Connections without a complete request are closed within 2 s: the difference is for the interval between checks
 * (ms).
 */
const REQUEST_MS = 1_500;
const ANSWER_MS = 30_000;

/** The side that a request waits for: the agent, or the client that reads the reply. */
type RequestState = () => 'agent' | 'client';

interface OpenConnection {
  /** Requests that were received completely and whose replies the client has not read completely. */
  readonly requests: Set<RequestState>;
  /** Time without a complete request (ms), and its maximum. */
  idleMs: number;
  idleMaxMs: number;
  /** Time for which the present reply has waited for the client (ms). */
  unreadMs: number;
}

/**
 * The connections of one listener. A client cannot occupy it: a connection is closed if it has no complete request in time or does not read
 * its reply in time, and at the limit the oldest such connection is closed in favour of the newest.
 *
 * Time is counted in intervals of the check, not by the clock: a pause of the process does not close connections whose requests are in the
 * kernel's buffers.
 */
export class ConnectionLimit {
  readonly #most: number;
  readonly #requestMs: number;
  readonly #keptMs: number;
  readonly #answerMs: number;
  /** Connections, the oldest first. */
  readonly #open = new Map<Socket, OpenConnection>();
  #timer: NodeJS.Timeout | undefined;

  constructor({ most, requestMs = REQUEST_MS, keptMs = requestMs, answerMs = ANSWER_MS }: ConnectionLimitOptions) {
    this.#most = most;
    this.#requestMs = requestMs;
    this.#keptMs = keptMs;
    this.#answerMs = answerMs;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Accepts a new connection, and makes room for it. @returns false if all others wait for the agent: then the new one is closed */
  admit(socket: Socket): boolean {
    if (this.#open.size >= this.#most && !this.#closeOldest()) {
      socket.destroy();
      return false;
    }
    this.#open.set(socket, { requests: new Set(), idleMs: 0, idleMaxMs: this.#requestMs, unreadMs: 0 });
    socket.once('close', () => this.#forget(socket));
    const checkMs = Math.max(10, this.#requestMs / 6);
    this.#timer ??= setInterval(() => this.#check(checkMs), checkMs).unref();
    return true;
  }

  /** Records a complete request. @returns function to call when its reply has been read */
  requested(socket: Socket, state: RequestState): () => void {
    const connection = this.#open.get(socket);
    connection?.requests.add(state);
    return () => {
      if (!connection?.requests.delete(state)) return;
      connection.idleMs = 0;
      connection.idleMaxMs = this.#keptMs;
      connection.unreadMs = 0;
    };
  }

  /** Closes the oldest connection whose client does not read its reply. @returns whether there was one */
  closeSlowReader(): boolean {
    return this.#closeFirst((connection) => connection.requests.size > 0 && waitsForClient(connection));
  }

  /** Closes all connections without a complete request. */
  closeWaiting(): void {
    for (const [socket, { requests }] of this.#open) if (requests.size === 0) this.#close(socket);
  }

  closeAll(): void {
    for (const socket of this.#open.keys()) this.#close(socket);
  }

  #closeOldest(): boolean {
    return this.#closeFirst(({ requests }) => requests.size === 0) || this.closeSlowReader();
  }

  #closeFirst(suits: (connection: OpenConnection) => boolean): boolean {
    for (const [socket, connection] of this.#open) {
      if (!suits(connection)) continue;
      this.#close(socket);
      return true;
    }
    return false;
  }

  #check(elapsedMs: number): void {
    for (const [socket, connection] of this.#open) {
      if (connection.requests.size === 0) connection.idleMs += elapsedMs;
      else if (waitsForClient(connection)) connection.unreadMs += elapsedMs;
      if (connection.idleMs >= connection.idleMaxMs || connection.unreadMs >= this.#answerMs) this.#close(socket);
    }
  }

  /** Closes the descriptor at once; the `close` event follows later. */
  #close(socket: Socket): void {
    this.#forget(socket);
    socket.destroy();
  }

  #forget(socket: Socket): void {
    this.#open.delete(socket);
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

function waitsForClient({ requests }: OpenConnection): boolean {
  for (const state of requests) if (state() === 'agent') return false;
  return true;
}
