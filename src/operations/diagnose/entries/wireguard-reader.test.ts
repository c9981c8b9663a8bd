import { expect, it } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { WireGuardDevice } from '../../../netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../../netlink/wireguard/wireguard-key.ts';
import { WireGuardReader } from './wireguard-reader.ts';

const keys = [WireGuardPrivateKey.generate().publicKey, WireGuardPrivateKey.generate().publicKey];

/** Device whose peers have these bytes, received and sent. */
function deviceWith(...bytes: readonly (readonly [number, number] | undefined)[]): WireGuardDevice {
  const peers = bytes.flatMap((pair, at) => {
    const publicKey = keys[at];
    if (!pair || !publicKey) return [];
    return [
      {
        publicKey,
        endpoint: undefined,
        allowedNetworks: [],
        keepaliveSeconds: 25,
        handshakeAt: 1,
        receivedBytes: pair[0],
        sentBytes: pair[1],
      },
    ];
  });
  return { publicKey: undefined, listenPort: 51820, peers };
}

const signal = new AbortController().signal;

it('sums up the bytes of peers over readings, also of those that are gone or were put again', async () => {
  let device: WireGuardDevice | undefined = deviceWith([100, 10], [200, 20]);
  const reader = new WireGuardReader({ read: async () => device });
  expect(await reader.peers(signal)).toHaveLength(2);
  expect(reader.bytes).toEqual({ receivedBytes: 300, sentBytes: 30 });
  device = deviceWith([150, 15]);
  await reader.peers(signal);
  expect(reader.bytes).toEqual({ receivedBytes: 350, sentBytes: 35 });
  device = deviceWith([50, 5], [1, 1]);
  await reader.peers(signal);
  expect(reader.bytes).toEqual({ receivedBytes: 401, sentBytes: 41 });
  device = undefined;
  expect(await reader.peers(signal)).toEqual([]);
  expect(reader.bytes).toEqual({ receivedBytes: 401, sentBytes: 41 });
});

it('has no peers while the device does not answer', async () => {
  const reader = new WireGuardReader({ read: () => Promise.reject(new SeineError('UNAVAILABLE', 'stopped')) });
  expect(await reader.peers(signal)).toEqual([]);
});
