import { expect, it } from 'vitest';
import { generatedPages } from '../../build/docs/pages.ts';

it('has no generated page that is stale', () => {
  expect(generatedPages().flatMap(({ path, fresh }) => (fresh ? [] : [`${path}: run \`npm run docs\``]))).toEqual([]);
});
