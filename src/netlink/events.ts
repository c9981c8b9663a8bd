import { type Address, decodeAddress, RTM_DELADDR, RTM_NEWADDR } from './addresses.ts';
import { EventSocket, receiveQueueBytes } from './event-socket.ts';
import { decodeLink, type Link, RTM_DELLINK, RTM_NEWLINK } from './links.ts';
import type { Message } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import { decodeNeighbour, type Neighbour, RTM_DELNEIGH, RTM_NEWNEIGH } from './neighbours.ts';
import { decodeRoute, type Route, RTM_DELROUTE, RTM_NEWROUTE } from './routes.ts';
import { NetlinkSocket } from './socket.ts';

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
  /**
   * `port` of a socket whose doings are no news, because whoever has it knows of them. Links excepted: what is done to one may
   * do more than was asked for.
   */
  readonly notBy?: number;
}

/**
 * Hears what changes in a network namespace, whoever changes it.
 *
 * Subscribe first, list after that: then nothing falls between. The handler is called from the event loop and must not
 * throw; it marks something dirty and rings a bell. A change of our own is heard too, unless it
 * is kept out.
 */
export class KernelEvents {
  readonly #events: EventSocket;

  private constructor(events: EventSocket) {
    this.#events = events;
  }

  static open({ kinds, namespace, notBy }: KernelEventsOptions, handler: (event: KernelEvent) => void): KernelEvents {
    const options = { groups: kinds.flatMap((kind) => groups[kind]), receiveQueueBytes };
    const socket = NetlinkSocket.open(namespace ? { ...options, namespace } : options);
    return new KernelEvents(
      new EventSocket(socket, (messages) => {
        if (messages === 'overrun') handler({ kind: 'overrun' });
        else for (const message of messages) if (message.port !== notBy || isOfLink(message)) tell(message, handler);
      }),
    );
  }

  close(): void {
    this.#events.close();
  }
}

function tell(message: Message, handler: (event: KernelEvent) => void): void {
  const event = decodeEvent(message);
  if (event) handler(event);
}

function isOfLink({ type }: Message): boolean {
  return type === RTM_NEWLINK || type === RTM_DELLINK;
}

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
