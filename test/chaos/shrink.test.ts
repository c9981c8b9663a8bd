import { expect, it } from 'vitest';
import { shrink } from './shrink.ts';

const numbers = Array.from({ length: 40 }, (_, index) => index);
const needs =
  (...needed: readonly number[]) =>
  async (tried: readonly number[]): Promise<boolean> =>
    needed.every((each) => tried.includes(each));

it('keeps only the steps without which it does not fail', async () => {
  expect(await shrink(numbers, needs(39), 100)).toEqual([39]);
  expect(await shrink(numbers, needs(3, 17, 39), 200)).toEqual([3, 17, 39]);
  expect(await shrink([5], needs(5), 3)).toEqual([5]);
});

it('returns its best result at the limit of tries', async () => {
  let tries = 0;
  const counted = async (tried: readonly number[]): Promise<boolean> => {
    tries++;
    return await needs(3, 17, 39)(tried);
  };
  const left = await shrink(numbers, counted, 5);
  expect(tries).toBe(5);
  expect(left).toEqual(expect.arrayContaining([3, 17, 39]));
  expect(left.length).toBeLessThan(40);
});
