import { describe, expect, it } from 'vitest';
import { refuse } from './refusal.ts';

const macs = '0200000000020200000000 01'.replace(' ', '');
/** Destination MAC …02, source MAC …01. */
function frame(etherType: string, ...parts: readonly string[]): Uint8Array {
  return Buffer.from([macs, etherType, ...parts].join('').replaceAll(/\s/g, ''), 'hex');
}
const hex = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString('hex');

/** 10.10.0.5:40000 → 10.96.0.10:80, SYN, sequence number 1000. */
const syn4 = frame('0800', '45000028 1234 4000 40 06 0000 0a0a0005 0a60000a', '9c40 0050 000003e8 00000000 50 02 ffff 0000 0000');
const syn6 = frame(
  '86dd',
  '60000000 0014 06 40 fd001000000000000000000000000005 fd009600000000000000000000000010',
  '9c40 0050 000003e8 00000000 50 02 ffff 0000 0000',
);
const udp4 = frame('0800', '45000021 1234 0000 40 11 0000 0a0a0005 0a60000a', '9c40 0035 000d 0000 68656c6c6f');

/** Checksum over data that includes a correct checksum: all ones (RFC 1071). */
function sumOf(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += at + 1 < bytes.length ? bytes.readUInt16BE(at) : bytes.readUInt8(at) << 8;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return sum;
}

describe('refuse', () => {
  it('resets a SYN, from the destination address', () => {
    const answer = Buffer.from(refuse(syn4) ?? []);
    expect(hex(answer.subarray(0, 14))).toBe('020000000001020000000002' + '0800');
    expect(hex(answer.subarray(26, 34))).toBe('0a60000a' + '0a0a0005');
    expect(hex(answer.subarray(34, 48))).toBe('0050' + '9c40' + '00000000' + '000003e9' + '5014');
    expect(sumOf(answer.subarray(14, 34))).toBe(0xffff);
    expect(sumOf(Buffer.concat([answer.subarray(26, 34), Buffer.from('00060014', 'hex'), answer.subarray(34)]))).toBe(0xffff);
  });

  it('resets over IPv6', () => {
    const answer = Buffer.from(refuse(syn6) ?? []);
    expect(answer.length).toBe(14 + 40 + 20);
    expect(sumOf(Buffer.concat([answer.subarray(22, 54), Buffer.from('00060014', 'hex'), answer.subarray(54)]))).toBe(0xffff);
  });

  it('answers a segment with ACK by a reset with its number, and does not answer a reset', () => {
    const ack = Buffer.from(syn4);
    ack.writeUInt32BE(0x01020304, 42);
    ack.writeUInt8(0x10, 47);
    expect(hex(Buffer.from(refuse(ack) ?? []).subarray(38, 48))).toBe('01020304' + '00000000' + '5004');
    ack.writeUInt8(0x14, 47);
    expect(refuse(ack)).toBeUndefined();
  });

  it.each([0, 4, 15])('does not answer a header with a length of %i words', (words) => {
    for (const [segment, at] of [
      [syn4, 46],
      [syn6, 66],
    ] as const) {
      const corrupted = Buffer.from(segment);
      corrupted.writeUInt8(words << 4, at);
      expect(refuse(corrupted)).toBeUndefined();
    }
  });

  it('reports that a UDP port is unreachable, quoting the packet', () => {
    const answer = Buffer.from(refuse(udp4) ?? []);
    expect(hex(answer.subarray(34, 36))).toBe('0303');
    expect(hex(answer.subarray(42))).toBe(hex(udp4.slice(14)));
    expect(sumOf(answer.subarray(34))).toBe(0xffff);
  });

  it('reports the same for an SCTP port', () => {
    const sctp = Buffer.from(udp4);
    sctp.writeUInt8(132, 23);
    expect(hex(Buffer.from(refuse(sctp) ?? []).subarray(34, 36))).toBe('0303');
  });
  it('omits the padding of a short frame', () => {
    const padded = Buffer.concat([udp4, Buffer.alloc(13)]);
    expect(hex(refuse(padded))).toBe(hex(refuse(udp4)));
  });

  it('answers no fragment, no other protocol and no truncated packet', () => {
    const fragment = Buffer.from(udp4);
    fragment.writeUInt16BE(0x2000, 20);
    const icmp = Buffer.from(udp4);
    icmp.writeUInt8(1, 23);
    for (const bytes of [fragment, icmp, syn6.subarray(0, 60)]) expect(refuse(bytes)).toBeUndefined();
    for (let length = 0; length < syn4.length; length++) expect(refuse(syn4.subarray(0, length))).toBeUndefined();
  });
});
