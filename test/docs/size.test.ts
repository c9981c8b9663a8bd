import { expect, it } from 'vitest';
import { productPages, withoutGenerated } from '../support/prose.ts';

const kilobyte = 1024;
const sizeOf = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / kilobyte;
const pages = productPages();

/** Reference pages describe what the program prints itself; the last section of a page is for contributors. */
const isWritten = ({ path }: { readonly path: string }): boolean => !path.startsWith('docs/reference/');
const forUsers = (text: string): string => withoutGenerated(text).replace(/\n## In the code\n.*?(?=\n## |$)/s, '');

it('has written pages for users of at most 246 KB', () => {
  expect(sizeOf(pages.filter(isWritten).map(({ text }) => forUsers(text)))).toBeLessThanOrEqual(246);
});

it('has reference pages of at most 15 KB, without their generated tables', () => {
  expect(sizeOf(pages.filter((page) => !isWritten(page)).map(({ text }) => withoutGenerated(text)))).toBeLessThanOrEqual(15);
});

it('has generated tables of at most 95 KB', () => {
  expect(sizeOf(pages.map(({ text }) => text)) - sizeOf(pages.map(({ text }) => withoutGenerated(text)))).toBeLessThanOrEqual(95);
});

it('has no product page that is too long to be read', () => {
  const long = pages.filter(({ text }) => sizeOf([withoutGenerated(text)]) > 20);
  expect(long.map(({ path }) => path)).toEqual([]);
});

it('has no date, and no chapter of a release, in product pages', () => {
  const dated = pages.flatMap(({ path, text }) =>
    text
      .split('\n')
      .filter((line) => /\b20\d\d-[01]\d-[0-3]\d\b|^#+ .*\b(?:as of|since|from) \d+\.\d+\.\d+|\bAs of \d+\.\d+\.\d+/i.test(line))
      .map((line) => `${path}: ${line}`),
  );
  expect(dated).toEqual([]);
});

it('names no host or tool of the project’s own machines in product pages', () => {
  const found = pages.filter(({ text }) => /\bthis machine\b|\/work\/|\/tmp\/team/.test(text));
  expect(found.map(({ path }) => path)).toEqual([]);
});
