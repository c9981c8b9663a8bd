import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');

const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...['docs', 'src'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  ),
];

it('has no link to a file that is not there', () => {
  const dead = pages.flatMap((page) =>
    Array.from(readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g), ([, target = '']) => target)
      .filter((target) => !existsSync(resolve(root, dirname(page), target)))
      .map((target) => `${relative('.', page)}: ${target}`),
  );
  expect(dead).toEqual([]);
});
