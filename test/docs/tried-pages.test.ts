import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shellBlocks } from '../kubernetes/page-blocks.ts';
import { notRunMost, triedPages } from '../kubernetes/tried-pages.ts';

/*
 * Commands on pages are executed by `npm run test:kubernetes`, or the page gives a reason. This test checks that no block is missing.
 */

const root = join(import.meta.dirname, '..', '..');
const pages = Object.keys(triedPages).map((page) => ({ page, blocks: shellBlocks(readFileSync(join(root, page), 'utf8')) }));

describe.each(pages)('$page', ({ page, blocks }) => {
  it('names the runner of every block, or the reason why there is none', () => {
    const forgotten = blocks.filter(({ heading, notRun }) => triedPages[page]?.[heading] === undefined && notRun === undefined);
    expect(forgotten.map(({ heading, text }) => `${heading}: ${text.split('\n', 1)[0]}`)).toEqual([]);
  });
  it('has a block below every heading that is run', () => {
    const headings = new Set(blocks.filter(({ notRun }) => notRun === undefined).map(({ heading }) => heading));
    expect(Object.keys(triedPages[page] ?? {}).filter((heading) => !headings.has(heading))).toEqual([]);
  });
});

it('has few blocks that are not run', () => {
  const left = pages.flatMap(({ blocks }) => blocks.filter(({ notRun }) => notRun !== undefined));
  expect(left.length).toBeLessThanOrEqual(notRunMost);
});

it('reads blocks, in lists too, and the reason below one', () => {
  const page = [
    '# Title',
    '```sh',
    'first',
    '```',
    '',
    '*Not run by a test: no such machine.*',
    '- item',
    '  ```sh',
    '  second',
    '    more',
    '  ```',
  ];
  expect(shellBlocks(page.join('\n'))).toEqual([
    { heading: 'Title', text: 'first', notRun: 'no such machine.' },
    { heading: 'Title', text: 'second\n  more' },
  ]);
  expect(() => shellBlocks('# Title\n```sh\nno end')).toThrow('“Title” has no end');
});
