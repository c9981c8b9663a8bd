import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';
import type { NetlinkMessage } from './message.ts';
import type { NetlinkSocket } from './socket.ts';
import { Watch } from './sys.ts';

/** Size of the kernel's queue of unread events. */
export const receiveQueueBytes = 8 * 1024 * 1024;
const datagramsPerTurn = 256;
/** More datagrams than fit in the queue; the smallest takes half a kilobyte. */
const datagramsInQueue = receiveQueueBytes / 256;

/**
 * Reads the messages of a netlink socket's groups. After `overrun`, events were lost.
 *
 * The handler gets the messages of one datagram, which share the receive buffer; for one that it cannot read it throws `PROTOCOL`, which
 * counts as an overrun: the remedy is the same.
 */
export class EventSocket {
  readonly #socket: NetlinkSocket;
  readonly #watch: Watch;
  readonly #handler: (messages: readonly NetlinkMessage[] | 'overrun') => void;

  /** @param socket with its groups; closed with this object */
  constructor(socket: NetlinkSocket, handler: (messages: readonly NetlinkMessage[] | 'overrun') => void) {
    this.#socket = socket;
    this.#handler = handler;
    this.#watch = new Watch(socket.fd, 'readable', () => this.#drain()).unref();
  }

  close(): void {
    this.#watch.close();
    this.#socket.close();
  }

  /** Limits the datagrams read at once: the rest follows in the loop's next turn, after other work. */
  #drain(): void {
    for (let count = 0; count < datagramsPerTurn; count++) {
      const got = this.#deliver();
      if (got === 'empty') return;
      if (got === 'overrun') {
        this.#discard();
        this.#handler('overrun');
      }
    }
  }

  #deliver(): 'delivered' | 'empty' | 'overrun' {
    try {
      const messages = this.#socket.receiveEvents();
      if (messages === 'empty') return 'empty';
      this.#handler(messages);
      return 'delivered';
    } catch (error) {
      return orOverrun(error);
    }
  }

  /**
   * Empties the queue before the overrun is reported. The kernel reports the first loss only, and drops further events silently until the
   * queue has been empty once; a list read before that misses the events lost later.
   */
  #discard(): void {
    for (let count = 0; count < datagramsInQueue; count++) {
      try {
        if (this.#socket.receiveEvents() === 'empty') return;
      } catch (error) {
        orOverrun(error);
      }
    }
  }
}

function orOverrun(error: unknown): 'overrun' {
  if (errnoOf(error) === 'ENOBUFS' || (error instanceof SeineError && error.code === 'PROTOCOL')) return 'overrun';
  throw error;
}
