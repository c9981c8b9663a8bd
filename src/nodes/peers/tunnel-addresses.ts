import type { Ip } from '../../base/net/ip.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
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
