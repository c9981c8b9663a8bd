import { readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { stop } from 'esbuild';
import { afterAll, expect, it } from 'vitest';
import { digestOfView, digestsFile, type PictureName, viewsOfPictures } from '../ui/picture-sources.ts';

const names = Object.keys(viewsOfPictures) as PictureName[];
const digests = JSON.parse(readFileSync(digestsFile, 'utf8')) as Readonly<Record<string, string>>;

afterAll(stop);

it('has a picture of each view in both colour schemes, and its digest', () => {
  const files = readdirSync(dirname(digestsFile)).filter((name) => name.startsWith('page-'));
  expect(files.toSorted()).toEqual(names.flatMap((name) => ['dark', 'light'].map((scheme) => `page-${name}-${scheme}.png`)).toSorted());
  expect(Object.keys(digests).toSorted()).toEqual(names.toSorted());
});

it('reports pictures that are older than their view', async () => {
  const current = await Promise.all(names.map(async (name) => [name, await digestOfView(name)] as const));
  const old = current.filter(([name, digest]) => digests[name] !== digest).map(([name]) => name);
  // A report, and no failure: a change of the style alone makes all pictures old, and a lab takes new ones.
  if (old.length > 0) process.stdout.write(`older than their view: ${old.join(', ')}; npm run docs:screenshots takes new pictures\n`);
  expect(current.every(([, digest]) => /^[0-9a-f]{16}$/.test(digest))).toBe(true);
  expect(new Set(current.map(([, digest]) => digest)).size).toBe(names.length);
});
