import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerToOpening } from '../../../test/model/refusal-reference.ts';
import { decodeFrame, encodeError, encodeFrame, ipProtocols } from '../../../test/support/frame.ts';
import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { ipToBytes, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { Packet } from '../switch-model/packet.ts';
import { pseudoHeader } from './ip-frame.ts';
import { type AskedDestination, refusal } from './refusal-frame.ts';

const link = { ethSrc: parseMac('0e:aa:00:00:00:05'), ethDst: parseMac('0e:00:00:00:01:01') };
const answerTo = (frame: Uint8Array, asked?: AskedDestination): Buffer | undefined => {
  const answer = refusal(frame, asked);
  return answer && Buffer.from(answer);
};
const ETHERNET_BYTES = 14;
/** Offset of the type of an SCTP packet's first chunk, and the type INIT. */
const chunk = { at: 12, init: 1 };

describe.each([
  {
    family: 'ipv4',
    from: '10.10.0.5',
    to: '10.10.4.9',
    service: '10.96.0.10',
    icmp: 'icmp',
    echo: 8,
    header: 20,
    code: [3, 13],
    most: 576,
    hosts: ['10.10.0.5', '192.0.2.7', '224.0.0.9', '255.255.255.255', '0.0.0.0', '127.0.0.1'],
  },
  {
    family: 'ipv6',
    from: 'fd00:10::5',
    to: 'fd00:10:0:1::9',
    service: 'fd00:96::10',
    icmp: 'icmp6',
    echo: 128,
    header: 40,
    code: [1, 1],
    most: 1280,
    hosts: ['fd00:10::5', '2001:db8::7', 'ff02::9', '::', '::1'],
  },
] as const)('a denied packet of $family', ({ family, header, code, most, icmp, echo, hosts, ...texts }) => {
  const [from, to, service] = [parseIp(texts.from), parseIp(texts.to), parseIp(texts.service)];
  const ends = { ...link, payload: family, ipSrc: from, ipDst: to, ttl: 64 } as const;
  const frameOf = (packet: Partial<Packet>, data = new Uint8Array(8)): Buffer => {
    const frame = Buffer.from(encodeFrame({ ...ends, ...packet }, data));
    if (packet.protocol === 'sctp') frame.writeUInt8(chunk.init, ETHERNET_BYTES + header + chunk.at);
    return frame;
  };
  const syn = { protocol: 'tcp', portSrc: 40_000, portDst: 8080, tcpFlags: 'syn' } as const;
  const isCorrect = (answer: Buffer): boolean => {
    const [source, destination, body] = [ipToBytes(to), ipToBytes(from), answer.subarray(ETHERNET_BYTES + header)];
    const protocol = answer.readUInt8(ETHERNET_BYTES + (family === 'ipv4' ? 9 : 6));
    const isIcmp4 = protocol === ipProtocols.icmp;
    return internetChecksum(...(isIcmp4 ? [] : [pseudoHeader({ family, source, destination }, protocol, body.length)]), body) === 0;
  };

  it('that opens a TCP connection is reset, from the address and the port that it was sent to', () => {
    const answer = answerTo(frameOf(syn)) ?? Buffer.alloc(0);
    const tcp = answer.subarray(ETHERNET_BYTES + header);
    expect(answer.subarray(0, 12).toString('hex')).toBe('0eaa000000050e0000000101');
    expect([tcp.readUInt16BE(0), tcp.readUInt16BE(2), tcp.readUInt32BE(4), tcp.readUInt32BE(8), tcp.readUInt8(13)]).toEqual([
      8080, 40_000, 0, 1001, 0x14,
    ]);
    expect(isCorrect(answer)).toBe(true);
  });

  it('acknowledges the data of a SYN, also of one that is cut short', () => {
    const withData = Buffer.concat([frameOf(syn), Buffer.alloc(100, 7)]);
    if (family === 'ipv4') withData.writeUInt16BE(140, 16);
    else withData.writeUInt16BE(120, 18);
    for (const shown of [withData, withData.subarray(0, ETHERNET_BYTES + header + 20)])
      expect(answerTo(shown)?.readUInt32BE(ETHERNET_BYTES + header + 8)).toBe(1101);
  });

  it.each([
    ['udp', { protocol: 'udp', portSrc: 40_000, portDst: 53 }],
    ['sctp', { protocol: 'sctp', portSrc: 40_000, portDst: 53 }],
    ['an echo request', { protocol: icmp, icmpType: echo, icmpId: 7 }],
  ] as const)('of %s is answered as administratively prohibited, and quoted', (_, packet) => {
    const frame = frameOf(packet);
    const answer = answerTo(frame) ?? Buffer.alloc(0);
    const message = answer.subarray(ETHERNET_BYTES + header);
    expect([...message.subarray(0, 2)]).toEqual(code);
    expect(message.subarray(8)).toEqual(frame.subarray(ETHERNET_BYTES));
    expect(isCorrect(answer)).toBe(true);
  });

  it('is answered from the address and port of the Service that its client asked for, and quoted in that form', () => {
    const asked = { ip: service, port: 80 };
    const reset = answerTo(frameOf(syn), asked);
    expect(reset?.readUInt16BE(ETHERNET_BYTES + header)).toBe(80);
    expect(reset?.subarray(ETHERNET_BYTES + (family === 'ipv4' ? 12 : 8)).subarray(0, ipToBytes(to).length)).toEqual(
      Buffer.from(ipToBytes(service)),
    );
    const error = answerTo(frameOf({ protocol: 'udp', portSrc: 40_000, portDst: 53 }), asked) ?? Buffer.alloc(0);
    expect(decodeFrame(error)).toMatchObject({ ipSrc: service, ipDst: from, icmpType: code[0], icmpCode: code[1] });
    const quoted = decodeFrame(
      Buffer.concat([error.subarray(0, ETHERNET_BYTES), withoutChecksum(error.subarray(ETHERNET_BYTES + header + 8))]),
    );
    expect(quoted).toMatchObject({ ipSrc: from, ipDst: service });
  });

  it('is not answered if the asked address is of the other family', () => {
    expect(answerTo(frameOf(syn), { ip: parseIp(family === 'ipv4' ? 'fd00::1' : '10.0.0.1') })).toBeUndefined();
  });

  /** Quoted IP packet as one without a protocol, whose checksum `decodeFrame` would verify. */
  function withoutChecksum(packet: Buffer): Buffer {
    const copy = Buffer.from(packet);
    if (family === 'ipv6') copy.writeUInt8(59, 6);
    else {
      copy.writeUInt8(253, 9);
      copy.writeUInt16BE(0, 10);
      copy.writeUInt16BE(internetChecksum(copy.subarray(0, 20)), 10);
    }
    return copy;
  }

  it('is quoted up to the largest error, and without the padding of a short frame', () => {
    const long = frameOf({ protocol: 'udp', portSrc: 1, portDst: 2 }, Buffer.alloc(1_400, 7));
    for (const shown of [long, long.subarray(0, 1_294)]) expect(answerTo(shown)?.length).toBe(ETHERNET_BYTES + most);
    const short = frameOf({ protocol: 'udp', portSrc: 1, portDst: 2 }, new Uint8Array(0));
    expect(answerTo(Buffer.concat([short, Buffer.alloc(18, 9)]))).toEqual(answerTo(short));
  });

  it('is answered exactly as the reference states, and no answer is answered', () => {
    const protocols = fc.constantFrom<Packet['protocol']>('tcp', 'udp', 'sctp', icmp, 'gre', undefined);
    const flags = fc.constantFrom<NonNullable<Packet['tcpFlags']>>('syn', 'syn-ack', 'ack', 'ack-back', 'far-off', 'rst');
    const host = fc.constantFrom(...hosts).map(parseIp);
    const packets = fc.record({
      ipSrc: host,
      ipDst: host,
      protocol: protocols,
      tcpFlags: flags,
      icmpType: fc.nat(255),
      icmpCode: fc.nat(2),
    });
    fc.assert(
      fc.property(packets, fc.boolean(), ({ protocol, icmpType, ...packet }, isEcho) => {
        const type = isEcho ? echo : [135, 136, 137].includes(icmpType) ? 0 : icmpType;
        const denied = { ...packet, icmpType: type, portSrc: 40_000, portDst: 80, ...(protocol && { protocol }) };
        const answer = answerTo(frameOf(denied));
        const isReset = answer?.readUInt8(ETHERNET_BYTES + (family === 'ipv4' ? 9 : 6)) === ipProtocols.tcp;
        expect(answer && (isReset ? 'reset' : 'prohibited')).toBe(answerToOpening({ ...ends, ...denied }));
        if (answer) expect(answerTo(answer)).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  it('is not answered if it is an error, nor if it is cut short within its headers, at any byte', () => {
    const quoted = { ...ends, ipSrc: to, ipDst: from, protocol: 'udp', portSrc: 1, portDst: 2 } as const;
    expect(answerTo(encodeError(ends, quoted, new Uint8Array(2)))).toBeUndefined();
    for (const [packet, length] of [
      [syn, 20],
      [{ protocol: 'udp', portSrc: 1, portDst: 2 }, 8],
      [{ protocol: 'sctp', portSrc: 1, portDst: 2 }, 13],
      [{ protocol: icmp, icmpType: echo }, 8],
    ] as const)
      for (let shown = 0; shown < ETHERNET_BYTES + header + length; shown++)
        expect(answerTo(frameOf(packet).subarray(0, shown))).toBeUndefined();
  });

  it('is answered as a first fragment of a datagram, never as a later one, and never as a fragment of a SYN', () => {
    const fragment = (packet: Partial<Packet>, word: number): Buffer => {
      const frame = frameOf(packet);
      if (family === 'ipv4') {
        frame.writeUInt16BE(word, 20);
        return frame;
      }
      const extension = Buffer.from(`${frame.subarray(20, 21).toString('hex')}00000000000007`, 'hex');
      extension.writeUInt16BE(((word & 0x1fff) << 3) | (word & 0x2000 ? 1 : 0), 2);
      frame.writeUInt8(44, 20);
      frame.writeUInt16BE(frame.readUInt16BE(18) + 8, 18);
      return Buffer.concat([frame.subarray(0, 54), extension, frame.subarray(54)]);
    };
    const datagram = { protocol: 'udp', portSrc: 1, portDst: 2 } as const;
    expect(answerTo(fragment(datagram, 0x2000))).toBeDefined();
    expect(answerTo(fragment(datagram, 0x2001))).toBeUndefined();
    expect(answerTo(fragment(datagram, 0x0001))).toBeUndefined();
    expect(answerTo(fragment(syn, 0x2000))).toBeUndefined();
  });
});
