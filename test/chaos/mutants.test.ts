import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { drawMutant } from './drawn-mutant.ts';
import { root } from './lab.ts';
import { mutants } from './mutants.ts';

const textOf = (file: string): string => readFileSync(join(root, 'src', file), 'utf8');

it.each(Object.entries(mutants))('the agent contains the text that the mutant %s changes, once', (_, { file, from, to }) => {
  expect(textOf(file).split(from)).toHaveLength(2);
  expect(to).not.toBe(from);
});

it('draws the same line for one seed, another for others, and mutates it', () => {
  const drawn = Array.from({ length: 20 }, (_, seed) => drawMutant(seed));
  expect(drawn.filter(({ file, from }) => textOf(file).split(from).length !== 2)).toEqual([]);
  expect(drawn.filter(({ from, to }) => from === to)).toEqual([]);
  expect(new Set(drawn.map(({ file, from }) => `${file} ${from}`)).size).toBeGreaterThan(15);
  expect(drawMutant(7)).toEqual(drawn[7]);
});
