import { describe, expect, it } from 'vitest';
import { macToBytes, parseMac } from '../../base/net/mac.ts';
import { frameLine } from './frame-line.ts';
import { pcapHeader, pcapRecord, SNAP_LENGTH } from './pcap.ts';

const pod = parseMac('0a:58:0a:01:00:02');
const other = parseMac('0a:58:0a:01:00:03');

function frame(type: number, packet: readonly number[], { from = pod, to = other } = {}): Buffer {
  return Buffer.concat([macToBytes(to), macToBytes(from), Buffer.from([type >> 8, type & 0xff]), Buffer.from(packet)]);
}

const tcp = (flags: number): readonly number[] => [0x9c, 0xb0, 0, 80, ...new Array<number>(8).fill(0), 0x50, flags, 0, 0, 0, 0, 0, 0];
const ipv4 = (protocol: number, payload: readonly number[], fragment = [0, 0]): readonly number[] => {
  const head = [0x45, 0, 0, 0, 0, 0, ...fragment, 64, protocol, 0, 0];
  return [...head, 10, 1, 0, 2, 10, 1, 0, 3, ...payload];
};
const v6 = (last: number): readonly number[] => [0xfd, ...new Array<number>(14).fill(0), last];
const ipv6 = (next: number, payload: readonly number[]): readonly number[] => [
  0x60,
  0,
  0,
  0,
  0,
  0,
  next,
  64,
  ...v6(2),
  ...v6(3),
  ...payload,
];

describe('a frame in a line', () => {
  it.each<[string, Buffer, string]>([
    ['TCP', frame(0x0800, ipv4(6, tcp(0x12))), 'out 10.1.0.2:40112 > 10.1.0.3:80 tcp [SA] 54'],
    ['what comes to the pod', frame(0x0800, ipv4(17, [0, 53, 4, 0]), { from: other, to: pod }), 'in  10.1.0.2:53 > 10.1.0.3:1024 udp 38'],
    ['IPv6', frame(0x86dd, ipv6(6, tcp(2))), 'out [fd00::2]:40112 > [fd00::3]:80 tcp [S] 74'],
    ['ICMPv6', frame(0x86dd, ipv6(58, [135, 0, 0, 0])), 'out fd00::2 > fd00::3 icmpv6 type 135 code 0 58'],
    ['the first piece', frame(0x0800, ipv4(17, [0, 53, 4, 0], [0x20, 0])), 'out 10.1.0.2:53 > 10.1.0.3:1024 udp (first fragment) 38'],
    ['a later piece', frame(0x0800, ipv4(17, [0, 53, 4, 0], [0, 5])), 'out 10.1.0.2 > 10.1.0.3 udp (later fragment) 38'],
    [
      'a later piece of IPv6',
      frame(0x86dd, ipv6(44, [17, 0, 0, 9, 0, 0, 0, 0, 1, 2, 3, 4])),
      'out fd00::2 > fd00::3 udp (later fragment) 66',
    ],
    ['another protocol', frame(0x0800, ipv4(47, [0, 0, 0, 0])), 'out 10.1.0.2 > 10.1.0.3 protocol 47 38'],
    [
      'ARP',
      frame(0x0806, [0, 1, 8, 0, 6, 4, 0, 1, ...macToBytes(pod), 10, 1, 0, 2, 0, 0, 0, 0, 0, 0, 10, 1, 0, 1]),
      'out 10.1.0.2 > 10.1.0.1 arp who-has 42',
    ],
    ['an EtherType', frame(0x88cc, [1]), 'out 0a:58:0a:01:00:02 > 0a:58:0a:01:00:03 0x88cc 15'],
  ])('says %s', (_, bytes, line) => {
    expect(frameLine(bytes, bytes.length, pod)).toBe(line);
  });

  it('never fails, wherever a frame is truncated', () => {
    const whole = [
      frame(0x0800, ipv4(6, tcp(2))),
      frame(0x86dd, ipv6(44, [17, 0, 0, 9, 0, 0, 0, 0])),
      frame(0x0806, [0, 1, 8, 0, 6, 4, 0, 1]),
    ];
    for (const bytes of whole)
      for (let end = 0; end <= bytes.length; end++) expect(frameLine(bytes.subarray(0, end), 60, pod)).toMatch(/60( bytes)?$/);
    const odd = frame(0x0800, ipv4(6, tcp(2)));
    for (let head = 0; head < 16; head++) {
      odd.writeUInt8(0x40 | head, 14);
      expect(frameLine(odd, 54, pod)).toContain('10.1.0.2');
    }
  });
});

it('a capture file has nanosecond times, and the length of truncated frames', () => {
  expect(pcapHeader().toString('hex')).toBe(`4d3cb2a102000400${'00'.repeat(8)}00080000${'01000000'}`);
  const record = pcapRecord(Buffer.alloc(SNAP_LENGTH, 7), 9_000, 1_700_000_000_123.5);
  expect([0, 4, 8, 12].map((at) => record.readUInt32LE(at))).toEqual([1_700_000_000, 123_500_000, SNAP_LENGTH, 9_000]);
  expect(record.subarray(16)).toEqual(Buffer.alloc(SNAP_LENGTH, 7));
});
