import type { Finding } from '../../../api/check.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import type { WireGuardPeer } from '../../../netlink/wireguard/wireguard.ts';
import type { WireGuardPublicKey } from '../../../netlink/wireguard/wireguard-key.ts';
import { staleHandshakeMs } from '../../../nodes/wireguard/handshakes.ts';
import { type GuardDropsPort, readClearDrops } from '../entries/guard-drops.ts';
import type { WireGuardReader } from '../entries/wireguard-reader.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Maximum number of peers that are named. */
const NAMED_MAX = 5;

export interface EncryptionPort extends GuardDropsPort {
  readonly wireGuard: Pick<WireGuardReader, 'peers'>;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly environment: Pick<NodeEnvironment, 'wireGuard'> };
  /** Undefined until the node is known. */
  readonly encryption: () => { readonly peers: { nodeOf(key: WireGuardPublicKey): string | undefined } } | undefined;
}

/** Checks that the peers of the WireGuard device answer, and that no packet was dropped because it was not encrypted. */
export function wireGuard(port: EncryptionPort): Check {
  return {
    name: 'wireguard.handshakes',
    run: async ({ clocks }, reporter, signal) => {
      const { wireGuard: device } = port.running().environment;
      if (device === undefined) {
        reporter.finding(fine('wireguard.handshakes', 'packets between nodes are not encrypted (trafficEncryptionMode: none)'));
        return;
      }
      const nodeOf = (key: WireGuardPublicKey): string => port.encryption()?.peers.nodeOf(key) ?? key;
      const peers = (await port.wireGuard.peers(signal)).map((peer) => ({ ...peer, node: nodeOf(peer.publicKey) }));
      reportAll(reporter, [assessHandshakes(peers, clocks.wallMs()), assessCleartext(readClearDrops(port))]);
    },
  };
}

export function assessHandshakes(peers: readonly (Pick<WireGuardPeer, 'handshakeAt'> & { readonly node: string })[], now: number): Finding {
  const silent = peers.filter(({ handshakeAt }) => handshakeAt === undefined || now - handshakeAt > staleHandshakeMs);
  if (silent.length === 0)
    return fine('wireguard.handshakes', `${peers.length} peers, each with a handshake of the last ${staleHandshakeMs / 60_000} minutes`);
  const named = silent.slice(0, NAMED_MAX).map(({ node, handshakeAt }) => {
    const last = handshakeAt === undefined ? 'no handshake' : `the last handshake was ${Math.round((now - handshakeAt) / 1_000)} s ago`;
    return `${node}: ${last}`;
  });
  const more = silent.length > named.length ? [`and ${silent.length - named.length} more`] : [];
  return trouble('wireguard.handshakes', 'problem', {
    what: [...named, ...more].join('; '),
    effect:
      'packets to these nodes are lost; with wireGuard.unencryptedPeers: allow, those to nodes without any handshake are not encrypted',
    remedy: 'allow UDP port wireGuard.port between the nodes; compare keys with `kubectl get node -o yaml` and clocks (docs/encryption.md)',
  });
}

export function assessCleartext(drops: ReadonlyMap<string, number>): Finding {
  if (drops.size === 0)
    return trouble('wireguard.cleartext', 'problem', {
      what: 'the nftables table seine-clear does not exist',
      effect: 'packets may leave or arrive without encryption where routes of other programs lead around the device',
      remedy: 'seinectl diff; seinectl resume',
    });
  const counted = [...drops].filter(([, packets]) => packets > 0).map(([family, packets]) => `${packets} (${family})`);
  if (counted.length === 0) return fine('wireguard.cleartext', 'no packet of a pod would have left or arrived without encryption');
  return trouble('wireguard.cleartext', 'warning', {
    what: `packets of pods that would have left or arrived without encryption: ${counted.join(', ')}`,
    effect: 'they were dropped: while the device or a key was absent, or because a route of another program leads around the device',
    remedy: 'nft list table inet seine-clear    # twice; if the counters grow: ip route get ADDRESS of a pod of another node',
  });
}
