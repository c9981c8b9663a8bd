import { expect, it } from 'vitest';
import { WireGuardPrivateKey } from '../../../netlink/wireguard/wireguard-key.ts';
import { wireGuardSamples } from './wireguard-samples.ts';

const { signal } = new AbortController();
const peer = (handshakeAt: number | undefined) => ({
  publicKey: WireGuardPrivateKey.generate().publicKey,
  endpoint: undefined,
  allowedNetworks: [],
  keepaliveSeconds: 25,
  handshakeAt,
  receivedBytes: 0,
  sentBytes: 0,
});

it('counts peers by their handshakes, and has the age of the oldest', async () => {
  const reader = { peers: async () => [peer(990_000), peer(800_000), peer(undefined)], bytes: { receivedBytes: 7, sentBytes: 9 } };
  expect(await wireGuardSamples(reader, 1_000_000, signal)).toEqual({
    wireguard_peers: [
      [{ handshake: 'recent' }, 1],
      [{ handshake: 'stale' }, 1],
      [{ handshake: 'none' }, 1],
    ],
    wireguard_handshake_age_seconds: [[{}, 200]],
    wireguard_rx_bytes_total: [[{}, 7]],
    wireguard_tx_bytes_total: [[{}, 9]],
  });
});

it('has no samples on a node that does not encrypt', async () => {
  const samples = await wireGuardSamples({ peers: async () => [], bytes: { receivedBytes: 0, sentBytes: 0 } }, 1, signal);
  expect(Object.values(samples).flat()).toEqual([]);
});
