import { expect, it } from 'vitest';
import { drawOfKinds } from './draw.ts';
import { Random } from './random.ts';
import { Scene } from './scene.ts';
import { alertSteps } from './steps/alert-steps.ts';
import { drawnKinds, standingFamilies, stepFamilies } from './steps/all.ts';

const bare = Object.create(Scene.prototype) as Scene;
const seeds = Array.from({ length: 200 }, (_, seed) => seed);
const drawn = (...names: readonly string[]): readonly (string | undefined)[] =>
  seeds.map((seed) => drawOfKinds(bare, new Random(seed, 0), names).drawn[0]?.kind.name);

it('draws no kind that makes an alert true, so that seeds keep their meaning', () => {
  const drawable = new Set([...stepFamilies, ...standingFamilies].flat().concat(drawnKinds));
  expect(alertSteps.filter((kind) => drawable.has(kind))).toEqual([]);
  expect(new Set(alertSteps.map(({ name }) => name)).size).toBe(alertSteps.length);
});

it('draws nothing for a single kind: the first draw of a seed is the first of the kind', () => {
  const states = ['alive', 'alive', 'alive', 'alive', 'alive', 'alive', 'frozen', 'frozen', 'dead', 'starting'];
  for (const seed of seeds)
    expect(drawOfKinds(bare, new Random(seed, 3), ['flow.all deleted']).agent).toBe(new Random(seed, 3).pick(states));
});

it('draws a possible one of several, and more often one that is named twice', () => {
  const times = (name: string, among: readonly (string | undefined)[]): number => among.filter((each) => each === name).length;
  const both = drawn('flow.foreign', 'flow.all deleted');
  expect(times('flow.foreign', both) + times('flow.all deleted', both)).toBe(seeds.length);
  expect(times('flow.foreign', both)).toBeGreaterThan(seeds.length / 3);
  expect(times('flow.foreign', drawn('flow.foreign', 'flow.foreign', 'flow.all deleted'))).toBeGreaterThan(seeds.length / 2);
  expect(() => drawn('flow.foreign', 'no such')).toThrow('no such');
});
