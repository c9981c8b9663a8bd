import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { faults } from '../reliability/faults.ts';

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'reliability.md'), 'utf8');
const names = new Set<string>(faults.map(({ name }) => name));

it('names a fault or a test for each failure', () => {
  const [, section = ''] = page.split('\n## Failures\n');
  const [table = ''] = section.split('\n## ');
  const cells = Array.from(table.matchAll(/^\| .* \| ([^|]+) \|$/gm), ([, cell = '']) => cell).filter((cell) => cell !== 'Test');
  expect(cells.length).toBeGreaterThan(15);
  const isThere = (name: string): boolean =>
    names.has(name) || [join('test', `${name}.test.ts`), name].some((path) => existsSync(join(root, path)));
  const missing = cells.filter((cell) => {
    const named = Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name);
    return named.length === 0 || !named.every(isThere);
  });
  expect(missing).toEqual([]);
});
