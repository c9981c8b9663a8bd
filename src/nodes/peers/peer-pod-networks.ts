import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { hostCidr, parseCidr } from '../../base/net/ip.ts';
import { overlapsAny } from '../../base/net/network-index.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { transportOf } from '../local/node-environment.ts';
import { type AddressClaim, AddressClaims, differing, type ReservedRange } from './address-claims.ts';

interface PeerPodNetworksOptions {
  readonly source: Pick<PeerSource, 'get' | 'peers' | 'subscribe'>;
  /** Returns the current ranges; call `reservedChanged` after they may have changed. */
  readonly reserved: () => readonly ReservedRange[];
}

/**
 * Pod networks of other nodes for policy. A network that a node is not allowed to have does not count: otherwise the Node object of a
 * hostile host could make external hosts count as pods, and a pod as another's.
 *
 * Nothing is computed until `settle`: thousands of nodes may join at once.
 */
export class PeerPodNetworks {
  readonly #options: PeerPodNetworksOptions;
  readonly #claims: AddressClaims;
  #reserved: readonly ReservedRange[];
  #pending = new Set<string>();
  readonly #listeners = new Set<(names: ReadonlySet<string>) => void>();

  constructor(options: PeerPodNetworksOptions) {
    this.#options = options;
    this.#reserved = options.reserved();
    this.#claims = new AddressClaims(this.#reserved);
  }

  /** Records all nodes, and which change. @returns a function that ends it */
  follow(): () => void {
    const { source } = this.#options;
    for (const { name } of source.peers()) this.#pending.add(name);
    return source.subscribe((names) => {
      for (const name of names) this.#pending.add(name);
    });
  }

  /** Calls back with nodes whose networks may change with `settle` although their objects did not. @returns a function that ends it */
  subscribe(listener: (names: ReadonlySet<string>) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Reads the reserved ranges again. */
  reservedChanged(): void {
    const { source, reserved } = this.#options;
    const [before, now] = [this.#reserved, reserved()];
    const changed = differing(before, now, ({ range, against }) => `${range.text} ${against}`);
    if (changed.length === 0) return;
    this.#reserved = now;
    this.#claims.reserve(now);
    const names = new Set<string>();
    const isChanged = overlapsAny(changed);
    for (const peer of source.peers()) if (claimsOf(peer).some(({ range }) => isChanged(range))) names.add(peer.name);
    for (const name of names) this.#pending.add(name);
    for (const listener of this.#listeners) listener(names);
  }

  /** Compares what changed. @returns nodes whose networks may have changed */
  async settle(turns: LoopTurns): Promise<ReadonlySet<string>> {
    const concerned = new Set<string>();
    while (this.#pending.size > 0) {
      const names = this.#pending;
      this.#pending = new Set();
      for (const name of names) {
        const peer = this.#options.source.get(name);
        for (const other of this.#claims.set(name, peer ? claimsOf(peer) : [])) concerned.add(other);
        concerned.add(name);
        if (turns.due) await turns.next();
      }
    }
    return concerned;
  }

  /** Returns the networks of a node; undefined if it is not a peer. */
  of(name: string): readonly string[] | undefined {
    const peer = this.#options.source.get(name);
    if (peer === undefined) return undefined;
    const claims = claimsOf(peer).filter(({ use }) => use === 'pods');
    return claims.filter((claim) => this.#claims.objection(claim) === undefined).map(({ range }) => range.text);
  }
}

/** Returns the addresses that a Node claims, of both families. */
export function claimsOf({ name: node, podCidrs, transport, since = '' }: Peer): readonly AddressClaim[] {
  return [
    ...podCidrs.map((text): AddressClaim => ({ node, since, use: 'pods', range: parseCidr(text) })),
    ...transportOf(transport).map((ip): AddressClaim => ({ node, since, use: 'tunnel', range: hostCidr(ip) })),
  ];
}
