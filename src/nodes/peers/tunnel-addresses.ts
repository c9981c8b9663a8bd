import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { tunnelPortType } from '../local/node-desired-state.ts';
import { transportOf } from '../local/node-environment.ts';

/** Addresses to which tunnel packets for other nodes are sent, computed again only after a change: there are thousands, read each second. */
export class TunnelAddresses {
  readonly #source: Pick<PeerSource, 'peers'>;
  readonly #end: () => void;
  #own: readonly Ip[] = [];
  #current: readonly Ip[] | undefined;

  constructor(source: Pick<PeerSource, 'peers' | 'subscribe'>) {
    this.#source = source;
    this.#end = source.subscribe(() => (this.#current = undefined));
  }

  /** Returns the same array until it changes. @param own addresses of this node's tunnels, one per family */
  of(own: readonly Ip[]): readonly Ip[] {
    if (this.#current === undefined || own !== this.#own) {
      this.#own = own;
      this.#current = tunnelAddresses(this.#source.peers(), own);
    }
    return this.#current;
  }

  end(): void {
    this.#end();
  }
}

/** Returns addresses to which tunnel packets for these nodes are sent. @param own addresses of this node's tunnels, one per family */
export function tunnelAddresses(peers: Iterable<Pick<Peer, 'transport'>>, own: readonly Ip[]): readonly Ip[] {
  const families = new Set(own.map(({ family }) => family));
  return Array.from(peers, ({ transport }) => transportOf(transport).find(({ family }) => families.has(family))).flatMap((ip) => ip ?? []);
}

/** Returns rejection reasons for peers whose tunnels end in another family: the two nodes cannot exchange packets. */
export function objectionsToFamily({ transport }: Peer, own: NodeEnvironment, dataPath: Parameters<typeof tunnelPortType>[0]): string[] {
  const portType = tunnelPortType(dataPath, own);
  // On the kernel's data path such a node accepts GRE only over IPv4, like this one.
  const theirs = portType === 'ip6gre' ? [transport.ipv4 ?? transport.ipv6] : [transport.ipv4, transport.ipv6];
  const ends = theirs.flatMap((text) => (text === undefined ? [] : parseIp(text)));
  if (ends.length === 0 || ends.some(({ family }) => own.transport.some((ip) => ip.family === family))) return [];
  const words = (ips: readonly Ip[]): string => ips.map(({ text }) => text).join(', ');
  const remedy = portType === 'gre' || portType === 'ip6gre' ? '; tunnelType: geneve or vxlan does with one family in common' : '';
  return [`tunnel address ${words(ends)} is of another family than this node's, ${words(own.transport)}: no ${portType} tunnel${remedy}`];
}
