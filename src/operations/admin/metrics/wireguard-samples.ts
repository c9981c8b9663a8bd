import type { WireGuardPeer } from '../../../netlink/wireguard/wireguard.ts';
import { staleHandshakeMs } from '../../../nodes/wireguard/handshakes.ts';
import type { WireGuardReader } from '../../diagnose/entries/wireguard-reader.ts';
import type { Sample } from './exporter.ts';

/** Samples of the node's WireGuard device; none while it has no peers. */
export async function wireGuardSamples(reader: Pick<WireGuardReader, 'peers' | 'bytes'>, now: number, signal: AbortSignal) {
  const peers = await reader.peers(signal);
  const { receivedBytes, sentBytes } = reader.bytes;
  const ages = peers.flatMap(({ handshakeAt }) => (handshakeAt === undefined ? [] : [Math.max(0, now - handshakeAt)]));
  const counted = (value: number): readonly Sample[] => (peers.length > 0 || value > 0 ? [[{}, value]] : []);
  return {
    wireguard_peers: peers.length === 0 ? [] : countsOf(peers, now),
    wireguard_handshake_age_seconds:
      ages.length === 0 ? [] : ([[{}, ages.reduce((oldest, age) => Math.max(oldest, age)) / 1_000]] satisfies Sample[]),
    wireguard_rx_bytes_total: counted(receivedBytes),
    wireguard_tx_bytes_total: counted(sentBytes),
  };
}

function countsOf(peers: readonly WireGuardPeer[], now: number): readonly Sample[] {
  const stateOf = ({ handshakeAt }: WireGuardPeer): string => {
    if (handshakeAt === undefined) return 'none';
    return now - handshakeAt > staleHandshakeMs ? 'stale' : 'recent';
  };
  const states = peers.map(stateOf);
  return ['recent', 'stale', 'none'].map((handshake): Sample => [{ handshake }, states.filter((state) => state === handshake).length]);
}
