import { describe, expect, it } from 'vitest';
import { encodeError, encodeFrame } from '../../../test/support/frame.ts';
import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { ipToBytes, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { Packet } from '../switch-model/packet.ts';
import { pseudoHeader } from './ip-frame.ts';
import { timeExceeded } from './time-exceeded-frame.ts';

const hop = { mac: parseMac('0e:00:00:00:01:01'), addresses: [parseIp('10.10.0.1'), parseIp('fd00:10::1')] };
const nextHop = parseMac('aa:bb:cc:dd:ee:ff');
const link = { ethSrc: parseMac('0e:aa:00:00:00:05'), ethDst: nextHop };
const answerTo = (frame: Uint8Array): Buffer | undefined => {
  const answer = timeExceeded(frame, hop, nextHop);
  return answer && Buffer.from(answer);
};

describe.each([
  {
    family: 'ipv4',
    from: '10.10.0.5',
    to: '10.10.4.9',
    many: '224.0.0.9',
    header: 20,
    type: 11,
    most: 576,
    noSources: ['0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255'],
  },
  {
    family: 'ipv6',
    from: 'fd00:10::5',
    to: 'fd00:10:0:1::9',
    many: 'ff02::9',
    header: 40,
    type: 3,
    most: 1280,
    noSources: ['::', '::1', 'ff02::1'],
  },
] as const)('an expired packet of $family', ({ family, header, type, most, noSources, ...texts }) => {
  const [from, to] = [parseIp(texts.from), parseIp(texts.to)];
  const ends = { ...link, payload: family, ipSrc: from, ipDst: to, ttl: 1 } as const;
  const datagram = (data = new Uint8Array(8), more: Partial<Packet> = {}): Buffer =>
    Buffer.from(encodeFrame({ ...ends, protocol: 'udp', portSrc: 40_000, portDst: 33_434, ...more }, data));

  it('is answered from the hop to its source, with correct checksums and the packet as it is', () => {
    const frame = datagram();
    const answer = answerTo(frame) ?? Buffer.alloc(0);
    const [ip, message] = [answer.subarray(14), answer.subarray(14 + header)];
    expect(answer.subarray(0, 14).toString('hex')).toBe(`aabbccddeeff0e0000000101${frame.subarray(12, 14).toString('hex')}`);
    const addresses = family === 'ipv4' ? ip.subarray(12, 20) : ip.subarray(8, 40);
    const [source, destination] = [ipToBytes(hop.addresses[family === 'ipv4' ? 0 : 1] ?? from), ipToBytes(from)];
    expect(addresses).toEqual(Buffer.concat([source, destination]));
    expect([...message.subarray(0, 2)]).toEqual([type, 0]);
    expect(message.subarray(8)).toEqual(frame.subarray(14));
    const covered = family === 'ipv4' ? [message] : [pseudoHeader({ family, source, destination }, 58, message.length), message];
    expect(internetChecksum(...covered)).toBe(0);
    if (family === 'ipv4') expect(internetChecksum(ip.subarray(0, 20))).toBe(0);
  });

  it('is quoted up to the largest error, also if only its beginning is known', () => {
    const frame = datagram(Buffer.alloc(1_400, 7));
    for (const shown of [frame, frame.subarray(0, 1_294)]) expect(answerTo(shown)?.length).toBe(14 + most);
    expect(answerTo(frame.subarray(0, 100))?.length).toBe(14 + header + 8 + 86);
  });

  it('is quoted without the padding of a short frame', () => {
    const frame = datagram(new Uint8Array(0));
    expect(answerTo(Buffer.concat([frame, Buffer.alloc(18, 9)]))).toEqual(answerTo(frame));
  });

  it('is not answered if it is an error, and is if it is an echo', () => {
    const protocol = family === 'ipv4' ? 'icmp' : 'icmp6';
    const echo = { ...ends, protocol, icmpType: family === 'ipv4' ? 8 : 128 } as const;
    expect(answerTo(encodeFrame(echo))).toBeDefined();
    expect(answerTo(encodeFrame({ ...echo, icmpType: type }))).toBeUndefined();
    expect(answerTo(encodeFrame({ ...echo, icmpType: family === 'ipv4' ? 5 : 137 }))).toBeUndefined();
    const quoted = { ...ends, ipSrc: to, ipDst: from, protocol: 'udp', portSrc: 1, portDst: 2 } as const;
    expect(answerTo(encodeError(ends, quoted, new Uint8Array(2)))).toBeUndefined();
  });

  it('is not answered if it is to or from several hosts, or from none', () => {
    expect(answerTo(datagram(undefined, { ipDst: parseIp(texts.many) }))).toBeUndefined();
    for (const source of noSources) expect(answerTo(datagram(undefined, { ipSrc: parseIp(source) }))).toBeUndefined();
  });

  it('is not answered if it is cut short within its headers, at any byte, nor if the hop has no such address', () => {
    const frame = datagram();
    for (let length = 0; length < 14 + header; length++) expect(answerTo(frame.subarray(0, length))).toBeUndefined();
    const others = hop.addresses.filter((ip) => ip.family !== family);
    expect(timeExceeded(frame, { ...hop, addresses: others }, nextHop)).toBeUndefined();
  });
});

describe('fragments', () => {
  const ipv4 = (word: number): Buffer => {
    const packet = { ...link, payload: 'ipv4', ipSrc: parseIp('10.10.0.5'), ipDst: parseIp('10.10.4.9'), ttl: 1, protocol: 'udp' } as const;
    const frame = Buffer.from(encodeFrame({ ...packet, portSrc: 1, portDst: 2 }));
    frame.writeUInt16BE(word, 20);
    return frame;
  };
  /** A datagram behind extension headers, each of which names the next. */
  const ipv6 = (first: number, ...headers: readonly string[]): Buffer => {
    const body = Buffer.from(`${headers.join('')}0001000200080000`, 'hex');
    const frame = Buffer.alloc(54 + body.length);
    frame.writeUInt16BE(0x86dd, 12);
    frame.writeUInt8(0x60, 14);
    frame.writeUInt16BE(body.length, 18);
    frame.writeUInt8(first, 20);
    frame.writeUInt8(1, 21);
    frame.set(ipToBytes(parseIp('fd00:10::5')), 22);
    frame.set(ipToBytes(parseIp('fd00:10:0:1::9')), 38);
    frame.set(body, 54);
    return frame;
  };

  it('have the version of their EtherType, or are no packets', () => {
    const frame = ipv6(17);
    expect(answerTo(frame)).toBeDefined();
    frame.writeUInt8(0x40, 14);
    expect(answerTo(frame)).toBeUndefined();
  });

  it('are answered by the first', () => {
    expect(answerTo(ipv4(0x2000))).toBeDefined();
    expect(answerTo(ipv4(0x2001))).toBeUndefined();
    expect(answerTo(ipv4(0x0001))).toBeUndefined();
    expect(answerTo(ipv6(44, '11000001 00000007'.replace(' ', '')))).toBeDefined();
    expect(answerTo(ipv6(44, '11000009 00000007'.replace(' ', '')))).toBeUndefined();
  });

  it('of errors behind extension headers are not answered', () => {
    const [hopByHop, toError] = ['3c00000000000000', '3a00000000000000'];
    expect(answerTo(ipv6(0, hopByHop, '1100000000000000'))).toBeDefined();
    // The body begins with type 0, an error.
    expect(answerTo(ipv6(0, hopByHop, toError))).toBeUndefined();
  });

  it('behind more extension headers than are read are not answered', () => {
    const optionsOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1 < count ? '3c' : '11'}00000000000000`);
    expect(answerTo(ipv6(60, ...optionsOf(8)))).toBeDefined();
    expect(answerTo(ipv6(60, ...optionsOf(9)))).toBeUndefined();
    expect(answerTo(ipv6(60, '11ff000000000000'))).toBeUndefined();
  });
});
