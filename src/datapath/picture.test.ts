import { expect, it } from 'vitest';
import { Picture } from './picture.ts';

function setUp() {
  let [nowMs, rings] = [0, 0];
  const picture = new Picture<string, number>(
    () => nowMs,
    () => rings++,
  );
  const held = new Map([['x', 1]]);
  return { picture, held, view: () => picture.view(async () => held), rings: () => rings, pass: (ms: number) => (nowMs += ms) };
}

it('looks once, and then remembers until somebody doubts', async () => {
  const { picture, held, view, rings } = setUp();
  const first = await view();
  expect([first.source, picture.keep(first)]).toEqual(['observed', true]);
  expect([(await view()).source, picture.actual]).toEqual(['remembered', held]);
  picture.suspect();
  expect([rings(), picture.actual, (await view()).source]).toEqual([1, undefined, 'observed']);
});

it('says since when it was doubted, and once what was believed before', async () => {
  const { picture, held, view, pass } = setUp();
  picture.keep(await view());
  pass(5);
  picture.suspect();
  pass(5);
  picture.suspect();
  expect((await view()).doubtedAtMs).toBe(5);
  expect([picture.takeBelieved(), picture.takeBelieved()]).toEqual([held, undefined]);
});

it('does not trust what a round left if somebody doubted meanwhile, but knows that it was believed', async () => {
  const { picture, held, view } = setUp();
  const round = await view();
  picture.suspect();
  expect([picture.keep(round), picture.actual]).toEqual([true, undefined]);
  expect(picture.takeBelieved()).toBe(held);
});

it('keeps nothing of a target that was replaced meanwhile', async () => {
  const { picture, view } = setUp();
  const round = await view();
  picture.replaced();
  expect([picture.stillOf(round), picture.keep(round), picture.takeBelieved()]).toEqual([false, false, undefined]);
});

it('puts suspicion off while paused, but no replacement and no doubt of our own', async () => {
  const { picture, view, rings } = setUp();
  picture.keep(await view());
  picture.pause();
  picture.suspect();
  picture.suspect();
  expect([rings(), picture.doubts]).toEqual([0, 0]);
  picture.resume();
  picture.resume();
  expect([rings(), picture.doubts]).toEqual([1, 1]);
  picture.pause();
  picture.replaced();
  picture.doubt();
  expect(rings()).toBe(3);
});

it('looks again after a round that failed, which is nobody else’s change', async () => {
  const { picture, view, rings } = setUp();
  picture.keep(await view());
  picture.forget();
  expect([rings(), (await view()).source, picture.takeBelieved()]).toEqual([0, 'observed', undefined]);
});

it('keeps a doubt that could not be looked at', async () => {
  const { picture, held, view } = setUp();
  picture.keep(await view());
  picture.suspect();
  await expect(picture.view(() => Promise.reject(new Error('away')))).rejects.toThrow('away');
  expect((await view()).doubtedAtMs).toBe(0);
  expect(picture.takeBelieved()).toBe(held);
});
