import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../../test/support/frame.ts';
import { parseIp } from '../../../base/net/ip.ts';
import { parseMac } from '../../../base/net/mac.ts';
import { encodeTestPacket, isForwarded } from './test-packet.ts';

const link = { ethSrc: parseMac('aa:bb:cc:dd:ee:ff'), ethDst: parseMac('0e:00:00:00:01:01') };
const data = Buffer.from('sixteen bytes !!');

describe.each([
  ['ipv4', '10.10.3.254', '169.254.0.253'],
  ['ipv6', 'fd00:10::fffe', 'fd00:10::1'],
] as const)('a test packet of %s', (payload, from, to) => {
  const [ipSrc, ipDst] = [parseIp(from), parseIp(to)];
  const frame = encodeTestPacket({ ...link, from: ipSrc, to: ipDst, port: 9, data });

  it('has correct checksums', () => {
    const ports = { protocol: 'udp', portSrc: 9, portDst: 9 } as const;
    expect(Buffer.from(frame).toString('hex')).toBe(
      Buffer.from(encodeFrame({ ...link, payload, ipSrc, ipDst, ttl: 64, ...ports }, data)).toString('hex'),
    );
  });
  it('is recognised after one hop, and not before', () => {
    expect(isForwarded(frame, data)).toBe(false);
    const after = Uint8Array.from(frame);
    after[payload === 'ipv4' ? 22 : 21] = 63;
    expect(isForwarded(after, data)).toBe(true);
    expect(isForwarded(after, Buffer.from('something else !'))).toBe(false);
    expect(isForwarded(new Uint8Array(0), data)).toBe(false);
  });
});
