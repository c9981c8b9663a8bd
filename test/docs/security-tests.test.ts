import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/contributing/security-tests.md'), 'utf8');
const rows = page
  .slice(page.indexOf('<!-- hardening cases -->'))
  .split('\n')
  .map((line) => /^\| (.+) \| `([^`]+\.test\.ts)` \| (?:"(.+)"|`npm run .+`) \| (?:`(.+)`|-|userspace|not run) \|$/.exec(line))
  .filter((row) => row !== null);

it('lists every case that failed on 0.22.0 with its test', () => {
  const lines = page.slice(page.indexOf('<!-- hardening cases -->')).match(/^\| .+ \|$/gm) ?? [];
  expect(rows).toHaveLength(lines.length - 1); // the heading
  expect(rows.length).toBeGreaterThan(30);
});

it.each(rows.map(([, subject = '', file = '', title]) => [subject, file, title] as const))('has the test of: %s', (_, file, title) => {
  expect(readFileSync(join(root, file), 'utf8')).toContain(title ?? '');
});

const onKernel = rows.flatMap(([, subject = '', file = '', , part]) => (part === undefined ? [] : [[subject, file, part] as const]));

it.each(onKernel)('has a part of test:kernel with the test of: %s', (_, file, part) => {
  const parts = readFileSync(join(root, 'build/kernel-vm/test.mjs'), 'utf8').split(/^ {2}\{ ?$|^ {2}(?=\{ name)/m);
  const found = parts.find((text) => text.includes(`name: '${part}'`));
  expect(found).toMatch(new RegExp(`['/]${basename(file, '.test.ts')}['.]`));
});
