import { EventSocket, receiveQueueBytes } from './event-socket.ts';
import { decodeLink, type Link, RTM_DELLINK, RTM_NEWLINK } from './links.ts';
import type { NetlinkMessage } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import { type Address, decodeAddress, RTM_DELADDR, RTM_NEWADDR } from './routing/addresses.ts';
import { decodeNeighbour, type Neighbour, RTM_DELNEIGH, RTM_NEWNEIGH } from './routing/neighbours.ts';
import { decodeNetconf, type Netconf, RTM_NEWNETCONF } from './routing/netconf.ts';
import { decodeRoute, type Route, RTM_DELROUTE, RTM_NEWROUTE } from './routing/routes.ts';
import { decodeRule, RTM_DELRULE, RTM_NEWRULE, type Rule } from './routing/rules.ts';
import { NetlinkSocket } from './socket.ts';

type Change = 'set' | 'deleted';

/** `set` means new or changed. After `overrun`, events were lost: list everything again. */
export type KernelEvent =
  | { readonly kind: 'link'; readonly change: Change; readonly link: Link }
  | { readonly kind: 'address'; readonly change: Change; readonly address: Address }
  | { readonly kind: 'route'; readonly change: Change; readonly route: Route }
  | { readonly kind: 'rule'; readonly change: Change; readonly rule: Rule }
  | { readonly kind: 'neighbour'; readonly change: Change; readonly neighbour: Neighbour }
  /** A setting of an interface, or of all of them, changed: forwarding, reverse path filter, proxied neighbours. */
  | { readonly kind: 'netconf'; readonly netconf: Netconf }
  | { readonly kind: 'overrun' };

type EventKind = Exclude<KernelEvent['kind'], 'overrun'>;

/** Source: `RTNLGRP_*` of linux/rtnetlink.h. */
const groups = {
  link: [1],
  address: [5, 9],
  route: [7, 11],
  rule: [8, 19],
  neighbour: [3],
  netconf: [24, 25],
} as const satisfies Record<EventKind, readonly number[]>;

interface KernelEventsOptions {
  readonly kinds: readonly EventKind[];
  /** Network namespace; default: the caller's own. */
  readonly namespace?: NetworkNamespace;
  /**
   * `port` of a socket whose changes are not reported, because its owner knows them. Except links: a change of one may have further
   * effects.
   */
  readonly notBy?: number;
}

/**
 * Reports changes in a network namespace, made by any process.
 *
 * Subscribe first, list after that, so that no change is missed. The handler is called from the event loop and must not throw; it marks
 * something dirty and triggers a run. The agent's own changes are reported too, unless excluded.
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

function tell(message: NetlinkMessage, handler: (event: KernelEvent) => void): void {
  const event = decodeEvent(message);
  if (event) handler(event);
}

function isOfLink({ type }: NetlinkMessage): boolean {
  return type === RTM_NEWLINK || type === RTM_DELLINK;
}

function decodeEvent(message: NetlinkMessage): KernelEvent | undefined {
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
    case RTM_NEWRULE:
    case RTM_DELRULE: {
      const rule = decodeRule(message);
      return rule && { kind: 'rule', change: message.type === RTM_NEWRULE ? 'set' : 'deleted', rule };
    }
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH: {
      const neighbour = decodeNeighbour(message);
      return neighbour && { kind: 'neighbour', change: message.type === RTM_NEWNEIGH ? 'set' : 'deleted', neighbour };
    }
    case RTM_NEWNETCONF: {
      const netconf = decodeNetconf(message);
      return netconf && { kind: 'netconf', netconf };
    }
    default:
      return undefined; // prefixes, multicast and the like are sent to the same groups
  }
}

/** A bridge reports its ports with family AF_BRIDGE in the same group; a port that leaves a bridge is not deleted. */
function linkEvent(message: NetlinkMessage): KernelEvent | undefined {
  if (message.payload[0] !== 0) return undefined;
  return { kind: 'link', change: message.type === RTM_NEWLINK ? 'set' : 'deleted', link: decodeLink(message) };
}
