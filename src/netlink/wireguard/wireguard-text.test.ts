import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { publicKeyOf, WireGuardPrivateKey } from './wireguard-key.ts';
import { checkAnswer, decodeDeviceText, encodeChangeText } from './wireguard-text.ts';

const own = WireGuardPrivateKey.generate();
const key = publicKeyOf(Buffer.alloc(32, 0xaa));
const answer = `private_key=${Buffer.from(own.bytes).toString('hex')}
listen_port=51820
fwmark=1
public_key=${'aa'.repeat(32)}
preshared_key=${'00'.repeat(32)}
protocol_version=1
endpoint=[fd00::1]:4321
last_handshake_time_sec=10
last_handshake_time_nsec=500000000
tx_bytes=9
rx_bytes=7
persistent_keepalive_interval=25
allowed_ip=10.10.1.0/24
allowed_ip=fd00:10::/64
errno=0

`;

it('reads a device', () => {
  expect(decodeDeviceText(answer)).toEqual({
    publicKey: own.publicKey,
    listenPort: 51820,
    peers: [
      {
        publicKey: key,
        endpoint: { address: parseIp('fd00::1'), port: 4321 },
        allowedNetworks: [parseCidr('10.10.1.0/24'), parseCidr('fd00:10::/64')],
        handshakeAt: 10_500,
        keepaliveSeconds: 25,
        receivedBytes: 7,
        sentBytes: 9,
      },
    ],
  });
});

it('reads a device without a key', () => {
  expect(decodeDeviceText('errno=0\n\n')).toEqual({ publicKey: undefined, listenPort: 0, peers: [] });
  expect(decodeDeviceText(`private_key=${'00'.repeat(32)}\nerrno=0\n\n`).publicKey).toBeUndefined();
});

it('writes a change', () => {
  const endpoint = { address: parseIp('fd00::1'), port: 4321 };
  const put = [{ publicKey: key, endpoint, allowedNetworks: [parseCidr('10.10.1.0/24')], keepaliveSeconds: 25 }];
  const lines = encodeChangeText({ listenPort: 51820, put, remove: [key] }).split('\n');
  expect(lines).toEqual([
    'set=1',
    'listen_port=51820',
    `public_key=${'aa'.repeat(32)}`,
    'endpoint=[fd00::1]:4321',
    'persistent_keepalive_interval=25',
    'replace_allowed_ips=true',
    'allowed_ip=10.10.1.0/24',
    `public_key=${'aa'.repeat(32)}`,
    'remove=true',
    '',
    '',
  ]);
});

it.each([
  ['an error of the process', 'errno=-98\n\n', 'REFUSED'],
  ['an answer without an end', 'listen_port=1\n\n', 'PROTOCOL'],
  ['a line that is none', 'hello\nerrno=0\n\n', 'PROTOCOL'],
  ['an empty answer', '', 'PROTOCOL'],
])('reports %s', (_, text, code) => {
  expect(() => checkAnswer(text)).toThrow(SeineError);
  try {
    checkAnswer(text);
  } catch (error) {
    expect(error).toMatchObject({ code });
  }
});

it('names no key in an error, whatever the process answers', () => {
  const secret = Buffer.from(own.bytes).toString('hex');
  fc.assert(
    fc.property(fc.nat(answer.length - 1), fc.constantFrom('', 'x', '=', '\n', '0', ']'), (at, put) => {
      try {
        decodeDeviceText(answer.slice(0, at) + put + answer.slice(at + 1));
      } catch (error) {
        expect(error).toBeInstanceOf(SeineError);
        expect(String(error)).not.toContain(secret.slice(8, 40));
      }
    }),
  );
});
