import type { Family } from '../../base/net/ip.ts';
import type { Replica } from '../client/replica/replica.ts';
import { type Node, peerModesValues } from './node.ts';

/** Another node, with the properties that matter to packets. Addresses and networks are canonical text. */
export interface Peer {
  readonly name: string;
  readonly podCidrs: readonly string[];
  /** Reasons for networks of its Node that cannot be used. */
  readonly refusedPodCidrs?: readonly string[];
  /** Reasons for addresses of its Node that are not used. */
  readonly refusedAddresses?: readonly string[];
  /** Tunnel end by family; a family that it does not have is absent. */
  readonly transport: Readonly<Partial<Record<Family, string>>>;
  /** Addresses at which it receives tunnel packets: every address of its Node. */
  readonly addresses: readonly string[];
  /**
   * Announcement of its Node. `direct`: it accepts packets of pods without a tunnel, and may send them; `tunnel`: it has ceased to announce
   * them, and may send some still.
   */
  readonly announces?: 'direct' | 'tunnel';
  /** Public key of WireGuard that its Node announces, and the one that replaces it; as written, but for their length. */
  readonly wireGuardKey?: string;
  readonly wireGuardNextKey?: string;
  /** Time when it joined the cluster, RFC 3339 in UTC, if known. */
  readonly since?: string;
}

/**
 * Source of all nodes but this one.
 *
 * An interface, because the Node resource is expensive for so little data: kubelets' heartbeats are most of its bytes. A source with less
 * noise can replace it.
 */
export interface PeerSource {
  readonly synced: boolean;
  whenSynced(signal: AbortSignal): Promise<void>;
  get(name: string): Peer | undefined;
  /** Returns peers in no particular order, including those without pod networks or transport addresses yet. */
  peers(): IterableIterator<Peer>;
  /** Calls back with names of peers that may have changed, and when the source becomes synced. @returns a function that ends it */
  subscribe(listener: (names: ReadonlySet<string>) => void): () => void;
}

/** Returns peers from the Node resource. Heartbeats change nothing that a {@link Node} has, so no listener is called. */
export function peersFromNodes(nodes: Replica<Node>, ownName: string): PeerSource {
  return {
    get synced() {
      return nodes.synced;
    },
    whenSynced: (signal) => nodes.whenSynced(signal),
    get: (name) => {
      const node = name === ownName ? undefined : nodes.get(name);
      return node && peerOf(node);
    },
    *peers() {
      for (const [name, node] of nodes.entries()) if (name !== ownName) yield peerOf(node);
    },
    subscribe: (listener) =>
      nodes.subscribe((names) => {
        const others = new Set(names);
        // A change of only this node is not a peer's; an empty set announces that the source is synced.
        if (others.delete(ownName) && others.size === 0) return;
        listener(others);
      }),
  };
}

function peerOf(node: Node): Peer {
  const { name, podCidrs, refusedPodCidrs, refusedAddresses, internalIps, externalIps = [], peerModes, createdAt } = node;
  const { wireGuardKey, wireGuardNextKey } = node;
  const ipv4 = internalIps.find((ip) => !ip.includes(':'));
  const ipv6 = internalIps.find((ip) => ip.includes(':'));
  return {
    name,
    podCidrs,
    ...(refusedPodCidrs === undefined ? {} : { refusedPodCidrs }),
    ...(refusedAddresses === undefined ? {} : { refusedAddresses }),
    transport: { ...(ipv4 === undefined ? {} : { ipv4 }), ...(ipv6 === undefined ? {} : { ipv6 }) },
    addresses: [...new Set([...internalIps, ...externalIps])],
    ...(peerModes === peerModesValues.direct || peerModes === peerModesValues.tunnel ? { announces: peerModes } : {}),
    ...(wireGuardKey === undefined ? {} : { wireGuardKey }),
    ...(wireGuardNextKey === undefined ? {} : { wireGuardNextKey }),
    ...(createdAt === undefined ? {} : { since: createdAt }),
  };
}
