import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sha256 } from './sha256.ts';

it('hashes like the system does', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      const wellFormed = Buffer.from(text).toString('utf8');
      expect(sha256(wellFormed)).toBe(createHash('sha256').update(wellFormed).digest('hex'));
    }),
  );
});

it.each([0, 55, 56, 63, 64, 119, 120, 128])('hashes %i bytes, at the edges of a block', (length) => {
  const text = 'a'.repeat(length);
  expect(sha256(text)).toBe(createHash('sha256').update(text).digest('hex'));
});
