import { hostCidr } from '../../base/net/ip.ts';
import { NetworkMap } from '../../base/net/network-index.ts';
import { compilePeerFlows, type PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { PacketAddress } from '../../dataplane/flow-walk/packet-state.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { AddressedOwner, OwnersByAddress } from './addressed-flows.ts';
import type { ReachOfPeer } from './node-compiler.ts';

/** All nodes of a cluster, as others reach them, by address. */
export class ClusterPeers {
  readonly #peers: readonly PeerIntent[];
  readonly #reach: ReachOfPeer;
  /** Positions of the peers whose pod network, or transport address, contains an address. */
  readonly #positions = new NetworkMap<number>();
  /** Names by transport address. */
  readonly #names = new Map<string, string>();

  constructor(peers: readonly PeerIntent[], reach: ReachOfPeer = (_, peer) => peer) {
    this.#peers = peers;
    this.#reach = reach;
    for (const [at, { name, podCidrs, transport }] of peers.entries()) {
      for (const network of [...podCidrs, ...transport.map(hostCidr)]) this.#positions.add(network, at);
      for (const { text } of transport) if (!this.#names.has(text)) this.#names.set(text, name);
    }
  }

  /** The nodes other than `node`, as it reaches them. */
  of(node: string): readonly PeerIntent[] {
    return this.#peers.flatMap((peer) => (peer.name === node ? [] : this.#reach(node, peer)));
  }

  /** Returns the name of the node with a transport address, the first one of several. */
  nameAt(address: string): string | undefined {
    return this.#names.get(address);
  }

  /** Flows of a node for its peers, by their addresses: each of them matches an address of the peer's pods or of the peer itself. */
  flowsFor(node: string, environment: NodeEnvironment): OwnersByAddress {
    const owned = (peer: PeerIntent): AddressedOwner => ({
      owner: ownerOf('peer', peer.name),
      compile: () => compilePeerFlows(peer, environment),
    });
    return {
      at: (addresses) => this.#at(addresses).flatMap((peer) => (peer.name === node ? [] : owned(this.#reach(node, peer)))),
      all: () => this.of(node).map(owned),
    };
  }

  #at(addresses: readonly PacketAddress[]): readonly PeerIntent[] {
    const found = new Set(addresses.flatMap((address) => this.#positions.at(address)));
    return [...found].sort((a, b) => a - b).flatMap((at) => this.#peers[at] ?? []);
  }
}
