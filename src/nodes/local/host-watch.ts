import type { Ip } from '../../base/net/ip.ts';
import { type KernelEvent, KernelEvents } from '../../netlink/events.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import { getLink, type Link } from '../../netlink/links.ts';
import { ourProtocol } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

interface HostWatchOptions {
  readonly socket: NetlinkSocket;
  /** `port` of the socket that creates Seine's addresses, routes, rules and neighbours: events of its changes are ignored. */
  readonly ours: number;
  /** Name of the gateway interface. */
  readonly gateway: string;
  /** Reports whether a name is that of the host end of a pod's interface. */
  readonly isPodInterface: (name: string) => boolean;
  readonly isWantedNeighbour: (ip: Ip) => boolean;
  /** Reports whether a desired route uses the interface of this name. Not called for pods' interfaces. */
  readonly isOfRoute: (name: string) => boolean;
  /** Called when an entry of Seine's may have changed. */
  readonly changed: () => void;
  /** Called when the gateway interface is a new one: everything attached to the previous one is gone. */
  readonly gatewayMade: () => void;
  /** Called when an interface that is neither a pod's nor Seine's, or an address of it, may have changed. */
  readonly nodeChanged: () => void;
  /** Called when the kernel's settings of all interfaces, of the gateway or of a tap may have changed. */
  readonly settingsChanged: () => void;
  /** Reports whether an interface of this name is the node's WireGuard device. */
  readonly isWireGuard: (name: string) => boolean;
  /** Called when that device may have changed. */
  readonly wireGuardChanged: () => void;
  /** Called when the gateway's interface is gone. */
  readonly gatewayGone: () => void;
  /** Called when the host end of a pod's pair has changed or is gone. */
  readonly podInterface: (change: 'set' | 'deleted', link: Link) => void;
  /** Called when events were lost. */
  readonly overrun: () => void;
}

/** Reports changes that the kernel, or another program, makes to Seine's entries in the node's network stack, until closed. */
export function watchHost({ socket, ours, gateway, isPodInterface, isWantedNeighbour, isOfRoute, changed, ...tell }: HostWatchOptions): {
  close(): void;
} {
  let index: IfIndex | undefined;
  const watch = KernelEvents.open({ kinds: ['link', 'address', 'route', 'rule', 'neighbour', 'netconf'], notBy: ours }, (event) => {
    if (event.kind === 'link' && event.link.name === gateway && event.change === 'set' && event.link.index !== index) {
      index = event.link.index;
      tell.gatewayMade();
    }
    if (event.kind === 'overrun' || event.kind === 'link' || event.kind === 'address') {
      if (concernsNode(event, index, isPodInterface)) tell.nodeChanged();
    }
    if (event.kind === 'link' && event.change === 'deleted' && event.link.name === gateway) tell.gatewayGone();
    if (event.kind === 'link' && isPodInterface(event.link.name)) tell.podInterface(event.change, event.link);
    if (event.kind === 'overrun' || (event.kind === 'link' && tell.isWireGuard(event.link.name))) tell.wireGuardChanged();
    if (event.kind === 'overrun') tell.overrun();
    if (concernsSettings(event, index)) tell.settingsChanged();
    if (concernsUs(event, index, isWantedNeighbour) || concernsRoutes(event, isPodInterface, isOfRoute)) changed();
  });
  index = getLink(socket, gateway)?.index;
  return watch;
}

/**
 * Reports whether settings may have changed. Pods' interfaces have their own settings and do not count. `disable_ipv6` has no event, but
 * removes addresses. A tap whose reader opens it gets a carrier: its desired setting depends on the features that the reader requested.
 */
export function concernsSettings(event: KernelEvent, gateway: IfIndex | undefined): boolean {
  if (event.kind === 'overrun') return true;
  if (event.kind === 'link') return event.change === 'set' && event.link.kind === 'tun';
  if (event.kind === 'address') return event.change === 'deleted' && event.address.link === gateway;
  return event.kind === 'netconf' && (event.netconf.link === 'all' || event.netconf.link === gateway);
}

/**
 * Reports whether the node's environment may have changed: any interface may carry the tunnels, and the choice may change with any address.
 */
export function concernsNode(
  event: Extract<KernelEvent, { kind: 'overrun' | 'link' | 'address' }>,
  gateway: IfIndex | undefined,
  isPodInterface: (name: string) => boolean,
): boolean {
  switch (event.kind) {
    case 'overrun':
      return true;
    case 'link':
      return event.link.index !== gateway && !isPodInterface(event.link.name);
    case 'address':
      return event.address.link !== gateway && event.address.scope === 'global';
  }
}

/**
 * Reports whether entries of Seine's may have changed. Pods' interfaces are created and deleted all the time; the host target only has the
 * gateway's entries and what is routed over it.
 *
 * The event for a removed neighbour shows it as failed, and one that became dynamic is no longer permanent: for desired neighbours, any
 * event counts.
 */
export function concernsUs(event: KernelEvent, gateway: IfIndex | undefined, isWantedNeighbour: (ip: Ip) => boolean): boolean {
  switch (event.kind) {
    case 'overrun':
      return true;
    case 'route':
      return event.route.protocol === ourProtocol;
    case 'rule':
      return event.rule.protocol === ourProtocol;
    case 'link':
      return event.link.index === gateway;
    case 'address':
      return event.address.link === gateway;
    case 'neighbour':
      return event.neighbour.link === gateway && (event.neighbour.state === 'permanent' || isWantedNeighbour(event.neighbour.address));
    case 'netconf':
      return false;
  }
}

/**
 * Reports whether the kernel may have removed routes with an interface: of an interface that goes down it removes IPv4 routes without
 * events about them.
 */
export function concernsRoutes(
  event: KernelEvent,
  isPodInterface: (name: string) => boolean,
  isOfRoute: (name: string) => boolean,
): boolean {
  return event.kind === 'link' && !isPodInterface(event.link.name) && isOfRoute(event.link.name);
}
