import { expect, it } from 'vitest';
import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { Handshakes } from './handshakes.ts';

const key = WireGuardPrivateKey.generate().publicKey;
const now = 1_800_000_000_000;
const device = (handshakeAt: number | undefined, sentBytes: number): WireGuardDevice => ({
  publicKey: undefined,
  listenPort: 51820,
  peers: [{ publicKey: key, endpoint: undefined, allowedNetworks: [], keepaliveSeconds: 25, handshakeAt, receivedBytes: 0, sentBytes }],
});

it.each([
  ['no handshake, and packets are sent', undefined, 148, [{ key, ageMs: undefined }]],
  ['an old handshake, and packets are sent', now - 181_000, 148, [{ key, ageMs: 181_000 }]],
  ['an old handshake, and nothing is sent', now - 181_000, 0, []],
  ['a handshake of 170 s ago', now - 170_000, 148, []],
])('reports a peer with %s', (_, handshakeAt, sent, silent) => {
  const handshakes = new Handshakes();
  expect(handshakes.check(device(handshakeAt, 1_000), now)).toEqual([]);
  expect(handshakes.check(device(handshakeAt, 1_000 + sent), now)).toEqual(silent);
  expect(handshakes.check(undefined, now)).toEqual([]);
});
