import { SeineError } from '../errors/seine-error.ts';
import { type Address, decodeAddress, RTM_DELADDR, RTM_NEWADDR } from './addresses.ts';
import { errnoOf } from './errno.ts';
import { decodeLink, type Link, RTM_DELLINK, RTM_NEWLINK } from './links.ts';
import type { Message } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import { decodeNeighbour, type Neighbour, RTM_DELNEIGH, RTM_NEWNEIGH } from './neighbours.ts';
import { decodeRoute, type Route, RTM_DELROUTE, RTM_NEWROUTE } from './routes.ts';
import { NetlinkSocket } from './socket.ts';
import { Watch } from './sys.ts';

export type Change = 'set' | 'deleted';

/** `set` means new or changed. After `overrun` events were lost: list everything again. */
export type KernelEvent =
  | { readonly kind: 'link'; readonly change: Change; readonly link: Link }
  | { readonly kind: 'address'; readonly change: Change; readonly address: Address }
  | { readonly kind: 'route'; readonly change: Change; readonly route: Route }
  | { readonly kind: 'neighbour'; readonly change: Change; readonly neighbour: Neighbour }
  | { readonly kind: 'overrun' };

export type EventKind = Exclude<KernelEvent['kind'], 'overrun'>;

/** Source: `RTNLGRP_*` of linux/rtnetlink.h. */
const groups = {
  link: [1],
  address: [5, 9],
  route: [7, 11],
  neighbour: [3],
} as const satisfies Record<EventKind, readonly number[]>;

export interface KernelEventsOptions {
  readonly kinds: readonly EventKind[];
  /** The caller's own if left out. */
  readonly namespace?: NetworkNamespace;
}

/**
 * Hears what changes in a network namespace, whoever changes it.
 *
 * Subscribe first, list after that: then nothing falls between. The handler is called from the event loop and must not
 * throw; it marks something dirty and rings a bell. A change of our own is heard too.
 */
export class KernelEvents {
  readonly #socket: NetlinkSocket;
  readonly #watch: Watch;
  readonly #handler: (event: KernelEvent) => void;

  private constructor(socket: NetlinkSocket, handler: (event: KernelEvent) => void) {
    this.#socket = socket;
    this.#handler = handler;
    this.#watch = new Watch(socket.fd, 'readable', () => this.#drain()).unref();
  }

  static open({ kinds, namespace }: KernelEventsOptions, handler: (event: KernelEvent) => void): KernelEvents {
    const options = { groups: kinds.flatMap((kind) => groups[kind]), receiveQueueBytes };
    return new KernelEvents(NetlinkSocket.open(namespace ? { ...options, namespace } : options), handler);
  }

  close(): void {
    this.#watch.close();
    this.#socket.close();
  }

  /** At most so many datagrams at once: the rest comes in the loop's next turn, after others had theirs. */
  #drain(): void {
    for (let count = 0; count < datagramsPerTurn; count++) {
      const messages = this.#receive();
      if (messages === 'empty') return;
      if (messages === 'overrun') {
        this.#discard();
        this.#handler({ kind: 'overrun' });
      } else for (const event of messages) this.#handler(event);
    }
  }

  /**
   * Empties the queue before the overrun is told. The kernel reports the first loss only, and goes on losing silently until
   * the queue has been empty once; whoever lists everything before that misses what is lost after.
   */
  #discard(): void {
    for (let count = 0; count < datagramsInQueue; count++) if (this.#receive() === 'empty') return;
  }

  #receive(): KernelEvent[] | 'empty' | 'overrun' {
    try {
      const messages = this.#socket.receiveEvents();
      return messages === 'empty' ? 'empty' : messages.map(decodeEvent).filter((event) => event !== undefined);
    } catch (error) {
      // What could not be received or read is as good as lost, and the cure is the same.
      if (errnoOf(error) === 'ENOBUFS' || (error instanceof SeineError && error.code === 'PROTOCOL')) return 'overrun';
      throw error;
    }
  }
}

const receiveQueueBytes = 8 * 1024 * 1024;
const datagramsPerTurn = 256;
/** More than fit in the queue; the smallest takes half a kilobyte. */
const datagramsInQueue = receiveQueueBytes / 256;

function decodeEvent(message: Message): KernelEvent | undefined {
  switch (message.type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return linkEvent(message);
    case RTM_NEWADDR:
    case RTM_DELADDR: {
      const address = decodeAddress(message);
      return address && { kind: 'address', change: message.type === RTM_NEWADDR ? 'set' : 'deleted', address };
    }
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const route = decodeRoute(message);
      return route && { kind: 'route', change: message.type === RTM_NEWROUTE ? 'set' : 'deleted', route };
    }
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH: {
      const neighbour = decodeNeighbour(message);
      return neighbour && { kind: 'neighbour', change: message.type === RTM_NEWNEIGH ? 'set' : 'deleted', neighbour };
    }
    default:
      return undefined; // prefixes, multicast and the like travel in the same groups
  }
}

/** A bridge tells of its ports with family AF_BRIDGE in the same group; a port that leaves a bridge is not deleted. */
function linkEvent(message: Message): KernelEvent | undefined {
  if (message.payload[0] !== 0) return undefined;
  return { kind: 'link', change: message.type === RTM_NEWLINK ? 'set' : 'deleted', link: decodeLink(message) };
}
