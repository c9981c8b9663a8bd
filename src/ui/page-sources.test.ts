import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const folder = join(import.meta.dirname, 'page');
const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(?:tsx?|html|css)$/.test(name) && !name.endsWith('.test.ts'))
  .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));

/** Ways from text to markup or code: names of pods and messages of nodes are untrusted. */
const forbidden =
  /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|createContextualFragment|\beval\b|new Function|setHTML|javascript:/;

it('writes names as text nodes only', () => {
  expect(sources.filter(({ text }) => forbidden.test(text)).map(({ name }) => name)).toEqual([]);
});

it('names no other origin', () => {
  expect(sources.filter(({ text }) => /https?:\/\/|url\(|@import/.test(text)).map(({ name }) => name)).toEqual([]);
});

it('has no inline style or script, which its Content Security Policy forbids', () => {
  expect(
    sources.filter(({ name, text }) => name !== 'page.css' && /\sstyle=|\son[a-z]+="|<script>/.test(text)).map(({ name }) => name),
  ).toEqual([]);
});

const KIB = 1_024;
const compressed = (names: readonly string[]): number =>
  names.reduce((sum, name) => sum + gzipSync(readFileSync(join(root, 'dist/ui', name)), { level: 9 }).length, 0);

it('is smaller than 120 KB compressed, and the simulator adds less than 160 KB', () => {
  execFileSync(process.execPath, [join(root, 'build/ui.mjs')]);
  expect(compressed(['index.html', 'page.js', 'page.css', 'shared.js'])).toBeLessThan(120 * KIB);
  expect(compressed(['simulator-worker.js'])).toBeLessThan(160 * KIB);
});

it('has the simulator as static files, which name each other without a path', () => {
  const files = readdirSync(join(root, 'dist/simulator')).toSorted();
  expect(files).toEqual(['index.html', 'licenses.txt', 'page.css', 'shared.js', 'simulator-worker.js', 'simulator.js']);
  expect(readFileSync(join(root, 'dist/simulator/index.html'), 'utf8')).not.toMatch(/(?:src|href)="\//);
});
