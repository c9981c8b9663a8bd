import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteReader, ByteWriter, bytesOf } from './bytes.ts';

describe('ByteWriter', () => {
  it('writes across the moment when its buffer grows', () => {
    const w = new ByteWriter(3);
    w.u8(1).u16(2).u32(3).u64(4n).u48(5).u128(7n).u16(6);
    const r = new ByteReader(w.finish(), 'test');
    expect([r.u8(), r.u16(), r.u32(), r.u64(), r.u48(), r.u64(), r.u64(), r.u16()]).toEqual([1, 2, 3, 4n, 5, 0n, 7n, 6]);
  });

  it('writes zeros over what an earlier use left in the buffer', () => {
    const w = new ByteWriter().u32(0xffff_ffff).truncate(0).u8(1).zeros(3);
    expect([...w.finish()]).toEqual([1, 0, 0, 0]);
  });

  it('returns the output of a function as separate bytes', () => {
    expect([...bytesOf((w) => w.u8(1).u16(2))]).toEqual([1, 0, 2]);
  });

  const widths = { u8: 8, u16: 16, u32: 32, u48: 48 } as const;
  for (const [name, bits] of Object.entries(widths) as [keyof typeof widths, number][]) {
    it(`${name} takes the integers from 0 to its highest, and no other number`, () => {
      const highest = 2 ** bits - 1;
      fc.assert(
        fc.property(fc.integer({ min: 0, max: highest }), (value) => {
          expect(BigInt(`0x${Buffer.from(new ByteWriter()[name](value).finish()).toString('hex')}`)).toBe(BigInt(value));
        }),
        { examples: [[0], [highest], [Math.floor(highest / 2) + 1]] },
      );
      for (const wrong of [-1, highest + 1, highest * 2 ** 4, 0.5, highest - 0.5, Number.NaN, Number.POSITIVE_INFINITY, -(2 ** 40)])
        expect(() => new ByteWriter()[name](wrong), String(wrong)).toThrow(/does not fit in 0\.\./);
    });
  }

  const wide = { u64: 64n, u128: 128n } as const;
  for (const [name, bits] of Object.entries(wide) as [keyof typeof wide, bigint][]) {
    it(`${name} takes the integers from 0 to its highest, and no other`, () => {
      const highest = (1n << bits) - 1n;
      fc.assert(
        fc.property(fc.bigInt({ min: 0n, max: highest }), (value) => {
          expect(BigInt(`0x${Buffer.from(new ByteWriter()[name](value).finish()).toString('hex')}`)).toBe(value);
        }),
        { examples: [[0n], [highest], [1n << 63n]] },
      );
      for (const wrong of [-1n, highest + 1n, -(1n << 70n)]) expect(() => new ByteWriter()[name](wrong)).toThrow(/does not fit in/);
    });
  }

  it('copies short and long runs of bytes, views of larger buffers too', () => {
    for (const length of [0, 1, 23, 24, 25, 300]) {
      const bytes = Uint8Array.from({ length: length + 2 }, (_, at) => at).subarray(1, length + 1);
      expect([...new ByteWriter(1).u8(9).raw(bytes).finish()]).toEqual([9, ...bytes]);
    }
  });

  it('pads to whole units, counted from where something began', () => {
    for (let length = 0; length < 20; length++) {
      const w = new ByteWriter().u8(1);
      w.zeros(length).alignTo(8, 1);
      expect(w.length - 1).toBe(Math.ceil(length / 8) * 8);
    }
  });

  it('ANDs a value with the mask that follows it', () => {
    expect([...new ByteWriter().u8(0xff).u16(0xffff).u16(0x0ff0).maskLast(2).finish()]).toEqual([0xff, 0x0f, 0xf0, 0x0f, 0xf0]);
  });

  it('reports whether it ends with given bytes', () => {
    const w = new ByteWriter().u8(1).u8(2).u8(3);
    expect([w.endsWith(Uint8Array.of(2, 3), 1), w.endsWith(Uint8Array.of(2), 1), w.endsWith(Uint8Array.of(2, 4), 1)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('ByteReader', () => {
  it('returns sub-readers that end at their end, and count offsets like their parent', () => {
    const r = new ByteReader(Uint8Array.of(1, 2, 3, 4, 5), 'whole').skip(1);
    const part = r.part(3, 'part');
    expect([part.u8(), part.remaining, part.offset, r.remaining]).toEqual([2, 2, 2, 1]);
    expect(() => part.skip(3)).toThrow('[PROTOCOL] part: 3 bytes expected at 2, 2 left');
    expect([...part.raw(2)]).toEqual([3, 4]);
    expect(() => r.part(2, 'part')).toThrow('[PROTOCOL] whole: 2 bytes expected at 4, 1 left');
  });

  it('looks ahead without moving, and not past the end', () => {
    const r = new ByteReader(Uint8Array.of(0, 0, 1, 2), 'peek');
    expect([r.peekU16(2), r.offset]).toEqual([258, 0]);
    expect(() => r.peekU16(3)).toThrow('[PROTOCOL] peek: 5 bytes expected at 0, 4 left');
  });

  it('reports what it read and where it ended when bytes are missing', () => {
    const r = new ByteReader(Uint8Array.of(1, 2, 3), 'greeting').skip(1);
    expect(() => r.u32()).toThrow('[PROTOCOL] greeting: 4 bytes expected at 1, 2 left');
  });
});
