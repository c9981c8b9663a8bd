import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { scenes } from '../bench/scenes.ts';

const root = join(import.meta.dirname, '..', '..');
const page = readFileSync(join(root, 'docs', 'feature-matrix.md'), 'utf8');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly scripts: Readonly<Record<string, string>> };

/** Headings of the tables whose last column names tests. */
const tables = ['Network', 'Services', 'NetworkPolicy', 'Operation', 'Sizes', 'Versions'];

function rowsOf(heading: string): readonly (readonly string[])[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split(/\n##+ /)[0] ?? '';
  const lines = section.split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(1).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const namesOf = (cell: string): readonly string[] => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name);

function isTest(name: string): boolean {
  const [, script] = /^npm (?:run )?([\w:]+)(?: -- .*)?$/.exec(name) ?? [];
  return script === undefined ? name.endsWith('.test.ts') && existsSync(join(root, name)) : script in scripts;
}

describe.each(tables)('%s', (heading) => {
  const rows = rowsOf(heading);

  it('names existing tests', () => {
    expect(rows.length).toBeGreaterThan(5);
    const wrong = rows.flatMap((row) => namesOf(row.at(-1) ?? '').filter((name) => !isTest(name)));
    expect(wrong).toEqual([]);
  });

  it('names a test for each supported feature', () => {
    const unsupported = rows.filter(
      ([, supported = '', limits = '']) => /^(no|not tested)$/.test(supported) || / no$|^a packet/.test(limits),
    );
    const missing = rows.filter((row) => namesOf(row.at(-1) ?? '').length === 0 && !unsupported.includes(row));
    expect(missing).toEqual([]);
  });
});

it('names existing rows of the bench', () => {
  const named = Array.from(page.matchAll(/npm run bench -- --only ([\w.]+)/g), ([, row = '']) => row);
  expect(named.length).toBeGreaterThan(3);
  const rows = new Set(scenes.flatMap((scene) => scene.rows));
  expect(named.filter((row) => !rows.has(row))).toEqual([]);
});
