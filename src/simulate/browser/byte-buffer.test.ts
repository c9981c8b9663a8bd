import fc from 'fast-check';
import { expect, it } from 'vitest';
import { byteBuffers } from './byte-buffer.ts';

const encodings = ['latin1', 'hex', 'utf8'] as const;
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);

it(`reads and writes text as Buffer does (SEINE_TEST_SEED=${seed})`, () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 20_000 }), fc.nat(30), fc.constantFrom(...encodings), (bytes, start, encoding) => {
      const [ours, node] = [byteBuffers.from(bytes), Buffer.from(bytes)];
      expect(ours.toString(encoding, start, bytes.length)).toBe(node.toString(encoding, start, bytes.length));
      const text = node.toString(encoding);
      expect([...byteBuffers.from(text, encoding)]).toEqual([...Buffer.from(text, encoding)]);
      expect(byteBuffers.byteLength(text)).toBe(Buffer.byteLength(text));
    }),
    { seed },
  );
});

const numbers = ['UInt8', 'UInt16BE', 'UInt32BE', 'Int32BE'] as const;
const highest = { UInt8: 0xff, UInt16BE: 0xffff, UInt32BE: 0xffff_ffff, Int32BE: 0x7fff_ffff } as const;

it.each(numbers)('reads and writes %s as Buffer does, at any place of a part', (name) => {
  fc.assert(
    fc.property(fc.integer({ min: name === 'Int32BE' ? -(2 ** 31) : 0, max: highest[name] }), fc.nat(8), (value, at) => {
      const [ours, node] = [byteBuffers.alloc(16).subarray(2), Buffer.alloc(16).subarray(2)];
      expect((ours as ReturnType<typeof byteBuffers.alloc>)[`write${name}`](value, at)).toBe(node[`write${name}`](value, at));
      expect([...ours]).toEqual([...node]);
      expect((ours as ReturnType<typeof byteBuffers.alloc>)[`read${name}`](at)).toBe(value);
    }),
    { seed },
  );
});

it('copies, joins, and shares memory as Buffer does', () => {
  const results = [byteBuffers, Buffer].map((buffers) => {
    const whole = buffers.concat([Uint8Array.of(1, 2), Uint8Array.of(3, 4, 5)]);
    const target = new Uint8Array(4);
    const copied = whole.copy(target, 2, 1);
    const shared = buffers.from(target.buffer, 1, 2);
    shared[0] = 9;
    const text = buffers.alloc(6);
    const written = text.write('\u00ff\u0001abcdefgh', 2, 'latin1');
    return [[...whole], copied, [...target], written, [...text], buffers.from([7, 8]).readUInt16BE(0)];
  });
  expect(results[0]).toEqual(results[1]);
});

it('reads and writes 64 bits as Buffer does', () => {
  const results = [byteBuffers, Buffer].map((buffers) => {
    const bytes = buffers.alloc(9);
    return [bytes.writeBigUInt64BE(0xfedc_ba98_7654_3210n, 1), [...bytes], bytes.readBigUInt64BE(1)];
  });
  expect(results[0]).toEqual(results[1]);
});
