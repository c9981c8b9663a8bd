import type { Ip } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';

/** Values of the configuration key `trafficEncapMode` that this selection knows. */
type EncapMode = 'encap' | 'noEncap' | 'hybrid';

/** Encryption of what this node sends to a peer, see {@link selectPeerMode}. */
export type PeerEncryption =
  /** This node does not encrypt. */
  | { readonly state: 'off' }
  /** The peer has no key, or not one that this node accepts. */
  | { readonly state: 'noKey'; readonly otherwise: 'drop' | 'allow' }
  /** Both nodes have read the other's key only a moment ago, or there was no handshake yet. */
  | { readonly state: 'establishing'; readonly otherwise: 'drop' | 'allow' }
  | { readonly state: 'encrypted'; readonly device: string };

/** Settings of this node. */
export interface ModeSettings {
  readonly encapMode: EncapMode;
  /** `none`: the network between the nodes routes pods' networks, and the node gets no route to any peer. */
  readonly directRoutes: 'auto' | 'none';
  /** True if a direct path has to be tested before pods use it; only with `hybrid`. */
  readonly verifyDirect: boolean;
}

/** Facts about a peer in one family, as this node observes them. */
export interface PeerPathFacts {
  readonly encryption: PeerEncryption;
  /** Its transport address of this family; undefined if it has none. */
  readonly address: Ip | undefined;
  /** Its Node object announces that it accepts packets without a tunnel, and may send them. */
  readonly announces: boolean;
  /** This node has announced it for long enough that the peer accepts packets without a tunnel from it. */
  readonly isExpected: boolean;
  /** Interface by which the kernel reaches the address without another hop; undefined if a router is between, or there is no route. */
  readonly link: string | undefined;
  /** The address is in `hybrid.directCIDRs`. */
  readonly isListed: boolean;
  /** Result of the echo between the gateways of both nodes, without a tunnel. */
  readonly echo: 'answered' | 'lost' | 'unknown';
}

/** Reasons for a mode, shown to operators and as labels of metrics. */
export const modeReasons = {
  encrypted: 'trafficEncryptionMode is wireGuard',
  noKey: 'the peer has no WireGuard key, and wireGuard.unencryptedPeers is drop',
  establishing: 'the first WireGuard handshake with the peer is not complete',
  configured: 'trafficEncapMode is encap',
  noAddress: 'the peer has no transport address of this family',
  resizing: 'the tunnel is next, once pods have an MTU that leaves room for it',
  notAnnounced: 'the peer does not announce that it accepts packets without a tunnel',
  announcing: 'this node has announced direct packets a moment ago, and waits until peers accept them',
  previous: 'a previous agent sent without a tunnel, and Node objects are not read from the API server yet',
  otherSubnet: 'a router is between this node and the peer',
  notVerified: 'an echo without a tunnel has not been answered yet',
  echoLost: 'echoes without a tunnel are lost',
  onLink: 'the peer is on the link',
  listed: 'the peer is in hybrid.directCIDRs',
  routedByNetwork: 'the network between the nodes routes pods’ networks',
} as const;
type ModeReason = keyof typeof modeReasons;

/** How this node sends to a peer. With a path, the bridge passes packets to the gateway, and the kernel routes them. */
export type PeerMode =
  | { readonly mode: 'tunnel'; readonly reason: ModeReason }
  | { readonly mode: 'direct' | 'wireguard' | 'blocked'; readonly reason: ModeReason; readonly path: DirectPath };

/**
 * Selects how this node sends to the pods of a peer in one family. The sender decides alone: every node accepts both ways from peers that
 * announce the direct one, so two nodes need not agree.
 *
 * Packets that are promised to be encrypted never leave otherwise: without a key, nothing is sent unless the settings allow it.
 *
 * A peer that does not announce it may be of an earlier release, or configured for the tunnel: it would drop direct packets.
 */
export function selectPeerMode({ encapMode, directRoutes, verifyDirect }: ModeSettings, facts: PeerPathFacts): PeerMode {
  const tunnel = (reason: ModeReason): PeerMode => ({ mode: 'tunnel', reason });
  const { encryption, address, announces, isExpected, link, isListed, echo } = facts;
  if (encryption.state === 'encrypted') return { mode: 'wireguard', reason: 'encrypted', path: { hop: { dev: encryption.device } } };
  if (encryption.state !== 'off' && encryption.otherwise === 'drop') return { mode: 'blocked', reason: encryption.state, path: {} };
  if (encapMode === 'encap') return tunnel('configured');
  if (address === undefined) return tunnel('noAddress');
  if (!announces) return tunnel('notAnnounced');
  if (!isExpected) return tunnel('announcing');
  const hop = link !== undefined && directRoutes === 'auto' ? { hop: { via: address, dev: link } } : {};
  const reason = link === undefined ? (isListed ? 'listed' : 'routedByNetwork') : 'onLink';
  if (encapMode === 'noEncap') return { mode: 'direct', reason, path: hop };
  if (link === undefined && !isListed) return tunnel('otherSubnet');
  if (verifyDirect && echo !== 'answered') return tunnel(echo === 'lost' ? 'echoLost' : 'notVerified');
  return { mode: 'direct', reason, path: hop };
}
