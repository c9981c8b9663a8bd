import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

const test = resolve(import.meta.dirname, '..');

it('imports nothing of the product: only test helpers and the set-up', () => {
  const reached = new Set<string>();
  const visit = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, target = ''] of readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g))
      visit(resolve(dirname(file), target));
  };
  const own = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  for (const name of own) visit(join(import.meta.dirname, name));
  expect(reached.size).toBeGreaterThan(own.length);
  expect([...reached].map((file) => relative(test, file)).filter((path) => path.startsWith('..') && !path.startsWith('../build/'))).toEqual(
    [],
  );
});
