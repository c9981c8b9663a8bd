import { describe, expect, it } from 'vitest';
import { MemoryTuner } from './memory-tuner.ts';

const checkMs = 500;

/** Results of consecutive checks of a loop with this load, and the time of each. */
function looks(tuner: MemoryTuner, share: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => ({ step: tuner.next(share, checkMs), afterMs: (index + 1) * checkMs }))
    .filter(({ step }) => step !== undefined)
    .map(({ step, afterMs }) => `${step} after ${afterMs}`);
}

describe('memory tuning', () => {
  it('starts in saving mode, and releases memory once', () => {
    expect(looks(new MemoryTuner(), 0.02, 1_000)).toEqual(['release after 15000']);
  });

  it('switches to speed when busy, and back after an idle time', () => {
    const tuner = new MemoryTuner();
    expect(looks(tuner, 0.8, 100)).toEqual(['spend after 500']);
    expect(looks(tuner, 0.2, 100)).toEqual([]);
    expect(looks(tuner, 0.02, 1_000)).toEqual(['save after 10000', 'release after 25000']);
    expect(looks(tuner, 0.3, 1)).toEqual(['spend after 500']);
  });

  it('stays in speed mode if idle times are short', () => {
    const tuner = new MemoryTuner();
    expect(looks(tuner, 0.9, 1)).toEqual(['spend after 500']);
    for (let round = 0; round < 20; round++) expect([...looks(tuner, 0.02, 19), ...looks(tuner, 0.9, 1)]).toEqual([]);
  });

  it('releases memory later if there is occasional work', () => {
    const tuner = new MemoryTuner();
    expect([...looks(tuner, 0.02, 20), ...looks(tuner, 0.2, 1)]).toEqual([]);
    expect(looks(tuner, 0.02, 100)).toEqual(['release after 15000']);
  });
});
