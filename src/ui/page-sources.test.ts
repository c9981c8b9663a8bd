import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const folder = join(import.meta.dirname, 'page');
const sources = readdirSync(folder)
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

it('is smaller than 120 KB, compressed', () => {
  execFileSync(process.execPath, [join(root, 'build/ui.mjs')]);
  const files = ['index.html', 'page.js', 'page.css'].map((name) => readFileSync(join(root, 'dist/ui', name)));
  expect(files.reduce((sum, content) => sum + gzipSync(content, { level: 9 }).length, 0)).toBeLessThan(120 * 1024);
});
