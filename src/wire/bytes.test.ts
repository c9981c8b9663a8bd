import { describe, expect, it } from 'vitest';
import { ByteReader, ByteWriter } from './bytes.ts';

describe('ByteWriter', () => {
  it('writes across the moment when its buffer grows', () => {
    const w = new ByteWriter(3);
    w.u8(1).u16(2).u32(3).u64(4n).u48(5).u16(6);
    const r = new ByteReader(w.finish(), 'test');
    expect([r.u8(), r.u16(), r.u32(), r.u64(), r.u48(), r.u16()]).toEqual([1, 2, 3, 4n, 5, 6]);
  });

  it('writes zeros over what an earlier use left in the buffer', () => {
    const w = new ByteWriter().u32(0xffff_ffff).truncate(0).u8(1).zeros(3);
    expect([...w.finish()]).toEqual([1, 0, 0, 0]);
  });
});
