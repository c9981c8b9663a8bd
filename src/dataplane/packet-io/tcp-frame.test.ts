import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../test/support/frame.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { readTcpFrame, turned } from './tcp-frame.ts';

const link = { ethSrc: parseMac('aa:bb:cc:dd:ee:ff'), ethDst: parseMac('0e:00:00:00:01:01') };
const ports = { portSrc: 40_123, portDst: 80 } as const;

describe.each([
  ['ipv4', '10.10.0.5', '10.96.0.10'],
  ['ipv6', 'fd00:10::5', 'fd00:96::10'],
] as const)('a frame of %s', (payload, from, to) => {
  const [ipSrc, ipDst] = [parseIp(from), parseIp(to)];
  const frame = (tcpFlags: 'syn' | 'rst'): Uint8Array =>
    encodeFrame({ ...link, payload, ipSrc, ipDst, ttl: 64, protocol: 'tcp', ...ports, tcpFlags });
  const tuple = { src: ipSrc, dst: ipDst, srcPort: 40_123, dstPort: 80 };

  it('has source, destination, and whether it is a reset', () => {
    const opening = frame('syn');
    expect(readTcpFrame(opening)).toMatchObject({ tuple, isReset: false });
    expect(readTcpFrame(frame('rst'))).toMatchObject({ tuple, isReset: true });
    expect(opening[readTcpFrame(opening)?.flagsAt ?? 0]).toBe(2);
    expect(turned(turned(tuple))).toEqual(tuple);
  });

  it('is undefined if truncated anywhere, or if it is another frame', () => {
    const whole = frame('syn');
    for (let length = 0; length < whole.length; length++) expect(readTcpFrame(whole.subarray(0, length))).toBeUndefined();
    const datagram = encodeFrame({ ...link, payload, ipSrc, ipDst, ttl: 64, protocol: 'udp', ...ports }, Buffer.alloc(40));
    expect(readTcpFrame(datagram)).toBeUndefined();
    const tagged = Uint8Array.from(whole);
    tagged.set([0x81, 0], 12);
    expect(readTcpFrame(tagged)).toBeUndefined();
  });
});
