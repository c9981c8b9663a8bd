import type { Ip } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';

/** Values of the configuration key `trafficEncapMode` that this selection knows. */
type EncapMode = 'encap' | 'noEncap' | 'hybrid';

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
  configured: 'trafficEncapMode is encap',
  noAddress: 'the peer has no transport address of this family',
  notAnnounced: 'the peer does not announce that it accepts packets without a tunnel',
  announcing: 'this node has announced direct packets a moment ago, and waits until peers accept them',
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
  | { readonly mode: 'direct' | 'wireguard'; readonly reason: ModeReason; readonly path: DirectPath };

/**
 * Selects how this node sends to the pods of a peer in one family. The sender decides alone: every node accepts both ways from peers that
 * announce the direct one, so two nodes need not agree.
 *
 * A peer that does not announce it may be of an earlier release, or configured for the tunnel: it would drop direct packets.
 */
export function selectPeerMode({ encapMode, directRoutes, verifyDirect }: ModeSettings, facts: PeerPathFacts): PeerMode {
  const tunnel = (reason: ModeReason): PeerMode => ({ mode: 'tunnel', reason });
  const { address, announces, isExpected, link, isListed, echo } = facts;
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
