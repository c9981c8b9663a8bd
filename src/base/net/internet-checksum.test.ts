import fc from 'fast-check';
import { expect, it } from 'vitest';
import { internetChecksum } from './internet-checksum.ts';

it('is that of the example in RFC 1071 section 3', () => {
  expect(internetChecksum(Uint8Array.of(0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7))).toBe(0x220d);
});

it('is zero over bytes that hold their own checksum, in whatever parts they come', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 200 }), fc.nat(100), (bytes, cut) => {
      const sum = internetChecksum(bytes);
      const parts = [bytes.subarray(0, 2 * cut), bytes.subarray(2 * cut)];
      expect(internetChecksum(...parts)).toBe(sum);
      expect(internetChecksum(Uint8Array.of(sum >> 8, sum & 0xff), ...parts)).toBe(0);
    }),
  );
});

it('carries however many bytes there are', () => {
  expect(internetChecksum(new Uint8Array(200_000).fill(0xff))).toBe(0);
});
