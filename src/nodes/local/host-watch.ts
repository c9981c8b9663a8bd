import type { Ip } from '../../base/net/ip.ts';
import { type KernelEvent, KernelEvents } from '../../netlink/events.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import { getLink, type Link } from '../../netlink/links.ts';
import { ourProtocol } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

interface HostWatchOptions {
  readonly socket: NetlinkSocket;
  /** `port` of the socket by which our own addresses, routes, rules and neighbours are made: what it does is no news. */
  readonly ours: number;
  /** Name of the gateway interface. */
  readonly gateway: string;
  /** Whether a name is one of the node's ends of pods' interfaces. */
  readonly isPodInterface: (name: string) => boolean;
  readonly isWantedNeighbour: (ip: Ip) => boolean;
  /** Something that is ours may be otherwise than before. */
  readonly changed: () => void;
  /** The gateway interface is a new one: everything that hung on the old one is gone. */
  readonly gatewayMade: () => void;
  /** An interface that is no pod's and not ours, or an address of it, may be another than before. */
  readonly nodeChanged: () => void;
  /** The kernel's settings of all interfaces, of the gateway or of a tap may be others than before. */
  readonly settingsChanged: () => void;
  /** The gateway's interface is gone. */
  readonly gatewayGone: () => void;
  /** The node's end of a pod's pair is another than before, or gone. */
  readonly podInterface: (change: 'set' | 'deleted', link: Link) => void;
  /** News was lost. */
  readonly overrun: () => void;
}

/** Reports what the kernel, or another program, changes of what is ours in the node's own stack, until closed. */
export function watchHost({ socket, ours, gateway, isPodInterface, isWantedNeighbour, changed, ...tell }: HostWatchOptions): {
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
    if (event.kind === 'overrun') tell.overrun();
    if (concernsSettings(event, index)) tell.settingsChanged();
    if (concernsUs(event, index, isWantedNeighbour)) changed();
  });
  index = getLink(socket, gateway)?.index;
  return watch;
}

/**
 * Pods' interfaces come with settings of their own. `disable_ipv6` has no event, and takes the addresses away. A tap whose reader comes
 * has a carrier: what is wanted of it follows from what that one asked for.
 */
export function concernsSettings(event: KernelEvent, gateway: IfIndex | undefined): boolean {
  if (event.kind === 'overrun') return true;
  if (event.kind === 'link') return event.change === 'set' && event.link.kind === 'tun';
  if (event.kind === 'address') return event.change === 'deleted' && event.address.link === gateway;
  return event.kind === 'netconf' && (event.netconf.link === 'all' || event.netconf.link === gateway);
}

/** What carries the tunnels may be any interface, and which one may change with any address. */
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
 * Pods' interfaces come and go all the time; only the gateway's and what leads over it are the host target's.
 *
 * A neighbour that is removed says so as a failed one, and one that is made dynamic is no permanent one any more: for
 * those that are wanted, any news counts.
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
