import { describe, expect, it } from 'vitest';
import { MemoryTuner } from './memory-tuner.ts';

const lookMs = 500;

/** Results of consecutive checks of a loop with this load, and the time of each. */
function looks(tuner: MemoryTuner, share: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => ({ step: tuner.next(share, lookMs), afterMs: (index + 1) * lookMs }))
    .filter(({ step }) => step !== undefined)
    .map(({ step, afterMs }) => `${step} after ${afterMs}`);
}

describe('what memory is worth', () => {
  it('is saved from the beginning, and given back once', () => {
    expect(looks(new MemoryTuner(), 0.02, 1_000)).toEqual(['giveBack after 15000']);
  });

  it('is spent as soon as there is much to do, and until that has been over for a while', () => {
    const tuner = new MemoryTuner();
    expect(looks(tuner, 0.8, 100)).toEqual(['spend after 500']);
    expect(looks(tuner, 0.2, 100)).toEqual([]);
    expect(looks(tuner, 0.02, 1_000)).toEqual(['save after 10000', 'giveBack after 25000']);
    expect(looks(tuner, 0.3, 1)).toEqual(['spend after 500']);
  });

  it('goes on being spent where calm moments are short', () => {
    const tuner = new MemoryTuner();
    expect(looks(tuner, 0.9, 1)).toEqual(['spend after 500']);
    for (let round = 0; round < 20; round++) expect([...looks(tuner, 0.02, 19), ...looks(tuner, 0.9, 1)]).toEqual([]);
  });

  it('is given back later where something is done now and then', () => {
    const tuner = new MemoryTuner();
    expect([...looks(tuner, 0.02, 20), ...looks(tuner, 0.2, 1)]).toEqual([]);
    expect(looks(tuner, 0.02, 100)).toEqual(['giveBack after 15000']);
  });
});
