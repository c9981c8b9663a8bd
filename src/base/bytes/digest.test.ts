import fc from 'fast-check';
import { expect, it } from 'vitest';
import { digests, portableDigests } from './digest.ts';

it('digests of Node.js and of plain JavaScript are equal, for 10,000 texts', () => {
  expect(digests).not.toBe(portableDigests);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => {
      expect([portableDigests.hex(text), portableDigests.base64url(text)]).toEqual([digests.hex(text), digests.base64url(text)]);
    }),
    { numRuns: 10_000 },
  );
});

it('digests text with unpaired surrogates alike', () => {
  expect(portableDigests.hex('a\ud800b')).toBe(digests.hex('a\ud800b'));
});
