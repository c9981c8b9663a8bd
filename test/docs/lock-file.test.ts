import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

interface Locked {
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const root = join(import.meta.dirname, '..', '..');
const packagesOf = (file: string): Readonly<Record<string, Locked>> =>
  (JSON.parse(readFileSync(join(root, file), 'utf8')) as { readonly packages: Readonly<Record<string, Locked>> }).packages;
const packages = packagesOf('package-lock.json');

it.each(['package-lock.json', 'site/package-lock.json'])('names no download address: %s', (file) => {
  expect(Object.entries(packagesOf(file)).flatMap(([path, { resolved }]) => (resolved?.includes('://') ? [path] : []))).toEqual([]);
});

/** npm omits optional packages that its registry does not have, and `npm ci` then rejects the file everywhere. */
it('holds every optional package that another one names', () => {
  const names = new Set(Object.keys(packages).map((path) => path.split('node_modules/').at(-1)));
  const wanted = Object.values(packages).flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies));
  expect(wanted.filter((name) => !names.has(name))).toEqual([]);
});
