import { expect, it } from 'vitest';
import { generator } from '../support/random.ts';
import { slopeOf } from './slope.ts';

const twoHours = Array.from({ length: 720 }, (_, at) => at / 360);

it('finds the slope of a line, without uncertainty', () => {
  expect(slopeOf(twoHours.map((hours) => ({ hours, value: 100 + 3 * hours })))).toEqual({
    perHour: expect.closeTo(3, 6),
    within: expect.closeTo(0, 6),
    blocks: 24,
  });
});

it('is as uncertain as the noise: the true slope is in 19 of 20 intervals', () => {
  const random = generator(7);
  const held = Array.from({ length: 200 }, () => {
    const found = slopeOf(twoHours.map((hours) => ({ hours, value: 100 + 0.5 * hours + 10 * (random() - 0.5) })));
    return found !== undefined && Math.abs(found.perHour - 0.5) <= found.within;
  }).filter(Boolean).length;
  expect(held).toBeGreaterThan(180);
  expect(held).toBeLessThan(199);
});

it('has no result for a few samples', () => {
  expect(slopeOf(twoHours.slice(0, 9).map((hours) => ({ hours, value: 1 })))).toBeUndefined();
  expect(slopeOf(twoHours.slice(0, 10).map((hours) => ({ hours, value: 1 })))?.blocks).toBe(5);
});
