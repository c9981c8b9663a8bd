import { describe, expect, it } from 'vitest';
import { Thrift } from './thrift.ts';

const lookMs = 500;

/** What is done in so many looks in a row at a loop that is as busy, and after how long each. */
function looks(thrift: Thrift, share: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => ({ step: thrift.next(share, lookMs), afterMs: (index + 1) * lookMs }))
    .filter(({ step }) => step !== undefined)
    .map(({ step, afterMs }) => `${step} after ${afterMs}`);
}

describe('what memory is worth', () => {
  it('is saved from the beginning, and given back once', () => {
    expect(looks(new Thrift(), 0.02, 1_000)).toEqual(['giveBack after 15000']);
  });

  it('is spent as soon as there is much to do, and until that has been over for a while', () => {
    const thrift = new Thrift();
    expect(looks(thrift, 0.8, 100)).toEqual(['spend after 500']);
    expect(looks(thrift, 0.2, 100)).toEqual([]);
    expect(looks(thrift, 0.02, 1_000)).toEqual(['save after 10000', 'giveBack after 25000']);
    expect(looks(thrift, 0.3, 1)).toEqual(['spend after 500']);
  });

  it('goes on being spent where calm moments are short', () => {
    const thrift = new Thrift();
    expect(looks(thrift, 0.9, 1)).toEqual(['spend after 500']);
    for (let round = 0; round < 20; round++) expect([...looks(thrift, 0.02, 19), ...looks(thrift, 0.9, 1)]).toEqual([]);
  });

  it('is given back later where something is done now and then', () => {
    const thrift = new Thrift();
    expect([...looks(thrift, 0.02, 20), ...looks(thrift, 0.2, 1)]).toEqual([]);
    expect(looks(thrift, 0.02, 100)).toEqual(['giveBack after 15000']);
  });
});
