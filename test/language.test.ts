import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';
import { root } from './support/source-tree.ts';

/*
 * Comments are written in the field's language: a doc comment begins with a noun phrase or a verb in the third person, and twelve words of the
 * project's early dialect are not used. Folders join the list once they hold it.
 */

/** Directories whose sources are checked. */
const folders: readonly string[] = ['src', 'lab', 'build', 'test'];

const forbiddenBeginning = /^(?:What|Of|As|Whose|Whether|By|For)\b/;
const retired = /\b(?:octets?|anew|mend(?:s|ed|ing)?|nobody|whoever|whom|lent|told|(?:is|are|was|were) said|says so|a look|the world)\b/i;

/** Names and output of other programs and standards, and quotations of them. */
const quoted = /`[^`]*`|application\/octet-stream|"[^"]*"|@param \w+/g;

interface Comment {
  readonly place: string;
  readonly isDoc: boolean;
  readonly text: string;
}

const comments = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.m?ts$|\.mjs$/.test(name))
    .flatMap((name) => commentsOf(join(folder, name))),
);

it('has no doc comment that begins without its noun', () => {
  expect(
    comments.filter(({ isDoc, text }) => isDoc && forbiddenBeginning.test(text)).map(({ place, text }) => `${place}: ${text}`),
  ).toEqual([]);
});

it('has no retired word in a comment', () => {
  const found = comments.flatMap(({ place, text }) => {
    const word = retired.exec(text.replace(quoted, ''))?.[0];
    return word === undefined ? [] : [`${place}: ${word}`];
  });
  expect(found).toEqual([]);
});

function commentsOf(path: string): readonly Comment[] {
  const source = readFileSync(join(root, path), 'utf8');
  return parseSync(path, source).comments.map(({ start, value }) => ({
    place: `${path}:${source.slice(0, start).split('\n').length}`,
    isDoc: value.startsWith('*'),
    text: value
      .replace(/^\s*\*+/gm, '')
      .replace(/\s+/g, ' ')
      .trim(),
  }));
}
