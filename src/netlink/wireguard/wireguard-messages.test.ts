import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, cidrOf, ipFromValue, parseCidr, parseIp } from '../../base/net/ip.ts';
import { headerLength, messagesIn } from '../message.ts';
import type { WantedWireGuardPeer } from './wireguard.ts';
import { publicKeyOf, WireGuardPrivateKey } from './wireguard-key.ts';
import { type DevicePart, decodeDevicePart, encodeChange, joinParts } from './wireguard-messages.ts';

const [keyA, keyB] = [publicKeyOf(Buffer.alloc(32, 0xaa)), publicKeyOf(Buffer.alloc(32, 0xbb))];

/** Answer of the kernel on a little-endian host; written by hand from linux/wireguard.h. */
const answer = Buffer.from(
  [
    '00010000', // genlmsghdr: command 0, version 1
    '06000600 6cca0000', // WGDEVICE_A_LISTEN_PORT 51820
    `24000400 ${'cc'.repeat(32)}`, // WGDEVICE_A_PUBLIC_KEY
    '94000880', // WGDEVICE_A_PEERS, nested
    '90000080', // peer, nested
    `24000100 ${'aa'.repeat(32)}`, // WGPEER_A_PUBLIC_KEY
    '14000400 0200ca6c c0000201 0000000000000000', // WGPEER_A_ENDPOINT: AF_INET, port 51820, 192.0.2.1
    '06000500 19000000', // WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL: 25 s
    '14000600 0a00000000000000 0065cd1d00000000', // WGPEER_A_LAST_HANDSHAKE_TIME: 10 s, 500,000,000 ns
    '0c000700 0700000000000000', // WGPEER_A_RX_BYTES
    '0c000800 0900000000000000', // WGPEER_A_TX_BYTES
    '20000980', // WGPEER_A_ALLOWEDIPS, nested
    '1c000080 06000100 02000000 08000200 0a0a0100 05000300 18000000', // 10.10.1.0/24
  ]
    .join('')
    .replaceAll(' ', ''),
  'hex',
);

describe('messages of the kernel', () => {
  it('are decoded', () => {
    expect(decodeDevicePart({ payload: answer })).toEqual({
      publicKey: publicKeyOf(Buffer.alloc(32, 0xcc)),
      listenPort: 51820,
      peers: [
        {
          publicKey: keyA,
          endpoint: { address: parseIp('192.0.2.1'), port: 51820 },
          allowedNetworks: [parseCidr('10.10.1.0/24')],
          handshakeAt: 10_500,
          keepaliveSeconds: 25,
          receivedBytes: 7,
          sentBytes: 9,
        },
      ],
    });
  });

  it('are joined where a peer continues in the next one', () => {
    const peer = (publicKey: typeof keyA, ...texts: string[]): DevicePart['peers'][number] => ({
      publicKey,
      endpoint: undefined,
      allowedNetworks: texts.map(parseCidr),
      handshakeAt: undefined,
      keepaliveSeconds: 0,
      receivedBytes: 0,
      sentBytes: 0,
    });
    const part = (...peers: DevicePart['peers'][number][]): DevicePart => ({ publicKey: undefined, listenPort: 1, peers });
    const joined = joinParts([part(peer(keyA, '10.1.0.0/16'), peer(keyB, '10.2.0.0/16')), part(peer(keyB, '10.3.0.0/16'))]);
    expect(joined?.peers).toEqual([peer(keyA, '10.1.0.0/16'), peer(keyB, '10.2.0.0/16', '10.3.0.0/16')]);
    expect(joinParts([])).toBeUndefined();
  });

  it('are rejected or decoded, never worse, for any bytes', () => {
    const damaged = fc.tuple(fc.nat(answer.length - 1), fc.integer({ min: 0, max: 255 })).map(([at, byte]) => {
      const bytes = Uint8Array.from(answer);
      bytes[at] = byte;
      return bytes;
    });
    const cut = fc.nat(answer.length - 1).map((length) => answer.subarray(0, length));
    fc.assert(
      fc.property(fc.oneof(damaged, cut, fc.uint8Array({ maxLength: 200 })), (payload) => {
        try {
          decodeDevicePart({ payload });
        } catch (error) {
          expect(error).toBeInstanceOf(SeineError);
        }
      }),
    );
  });

  it('hold a change that is decoded to the same peers', () => {
    fc.assert(
      fc.property(fc.array(anyPeer, { maxLength: 250 }), (put) => {
        const sent = messagesIn(encodeChange(33, 'antrea-wg0', { put }).bytes);
        const parts = sent.map(({ payload }) => decodeDevicePart({ payload }));
        expect(sent.every(({ payload }) => payload.length + headerLength <= 64 * 1024)).toBe(true);
        expect(parts.flatMap(({ peers }) => peers.map(({ handshakeAt: _, receivedBytes: __, sentBytes: ___, ...peer }) => peer))).toEqual(
          put,
        );
      }),
      { numRuns: 30 },
    );
  });

  it('are none for an empty change', () => {
    expect(encodeChange(33, 'antrea-wg0', {}).entries).toEqual([]);
  });

  it('put peers before they remove others', () => {
    const peer: WantedWireGuardPeer = { publicKey: keyA, endpoint: { address: parseIp('192.0.2.1'), port: 1 }, allowedNetworks: [] };
    const change = { privateKey: WireGuardPrivateKey.generate(), put: [peer], remove: [keyB] };
    const keys = messagesIn(encodeChange(33, 'antrea-wg0', change).bytes).map(({ payload }) =>
      decodeDevicePart({ payload }).peers.map(({ publicKey }) => publicKey),
    );
    expect(keys).toEqual([[], [keyA], [keyB]]);
  });

  it('reject a peer with too many networks', () => {
    const allowedNetworks = Array.from({ length: 1001 }, (_, index) => cidrOf(ipFromValue('ipv4', BigInt(index)), 32));
    const peer = { publicKey: keyA, endpoint: { address: parseIp('192.0.2.1'), port: 1 }, allowedNetworks };
    expect(() => encodeChange(33, 'antrea-wg0', { put: [peer] })).toThrow(/1001 networks/);
  });
});

const anyNetwork: fc.Arbitrary<Cidr> = fc.oneof(
  fc.tuple(fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }), fc.nat(32)).map(([value, bits]) => cidrOf(ipFromValue('ipv4', value), bits)),
  fc.tuple(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), fc.nat(128)).map(([value, bits]) => cidrOf(ipFromValue('ipv6', value), bits)),
);

const anyPeer: fc.Arbitrary<WantedWireGuardPeer> = fc.record({
  publicKey: fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .filter((bytes) => bytes.some((byte) => byte !== 0))
    .map(publicKeyOf),
  endpoint: fc.record({ address: anyNetwork.map(({ network }) => network), port: fc.integer({ min: 1, max: 65535 }) }),
  allowedNetworks: fc.array(anyNetwork, { maxLength: 20 }),
  keepaliveSeconds: fc.nat(65_535),
});
