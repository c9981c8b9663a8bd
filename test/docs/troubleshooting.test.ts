import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { checkNames } from '../../src/api/check.ts';

const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'troubleshooting.md'), 'utf8');
const code = Array.from(page.matchAll(/`([^`\n]+)`/g), ([, text = '']) => text);

it('names existing findings', () => {
  const groups = new Set(Object.keys(checkNames).map((name) => name.split('.')[0]));
  const named = code.filter((text) => /^[a-z]+\.[a-z*]+$/.test(text) && groups.has(text.split('.')[0]) && !text.endsWith('.md'));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !name.endsWith('.*') && !(name in checkNames))).toEqual([]);
});

it('has a heading for each of its own links', () => {
  const anchors = Array.from(page.matchAll(/^## (.+)$/gm), ([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-'),
  );
  const links = Array.from(page.matchAll(/\]\(#([^)]+)\)/g), ([, anchor = '']) => anchor);
  expect(links.length).toBeGreaterThan(5);
  expect(links.filter((link) => !anchors.includes(link))).toEqual([]);
});
