import { describe, expect, it } from 'vitest';
import { allPages, cellsOf, headingsOf, proseOf, sentencesOf, withoutGenerated } from '../support/prose.ts';

/*
 * Rules of the language in CONTRIBUTING.md that a program can check. ADR bodies, records of runs and the changelog of earlier releases keep
 * the words of their time.
 */

const longestSentence = 40;
const longestCell = 200;
const retired = /\b(octets?|anew|(?<!")mend(?:s|ed|ing)?|nobody|whoever|whom|lent|told|is said|says so|a look|the world)\b/i;

/** Without generated blocks: their sentences are checked where they are written, in the sources. */
const pages = allPages()
  .filter(({ path }) => path !== 'docs/design/pipeline.md')
  .map(({ path, text }) => ({ path, text: withoutGenerated(text) }));

describe.each(pages)('$path', ({ path, text }) => {
  it('uses none of the retired words', () => {
    const found = text.split('\n').flatMap((line, at) => {
      const [word] = retired.exec(line.replaceAll(/`[^`]*`/g, '').replaceAll(/\]\([^)]*\)/g, ']')) ?? [];
      return word === undefined ? [] : [`${path}:${at + 1}: ${word}`];
    });
    expect(found).toEqual([]);
  });

  it(`has no sentence of more than ${longestSentence} words`, () => {
    const long = sentencesOf(proseOf(text)).filter((sentence) => sentence.split(/\s+/).length > longestSentence);
    expect(long).toEqual([]);
  });

  it(`has no table cell of more than ${longestCell} characters`, () => {
    expect(cellsOf(text).filter((cell) => cell.length > longestCell)).toEqual([]);
  });

  it('has one title, headings without a skipped level, and no heading that ends like a sentence', () => {
    const headings = headingsOf(text);
    const levels = headings.map(({ level }) => level);
    expect(levels.filter((level) => level === 1)).toHaveLength(1);
    expect(headings.filter(({ level }, at) => level > (levels[at - 1] ?? 0) + 1)).toEqual([]);
    expect(headings.filter(({ title }) => /[.:;,]$/.test(title) || title.length > 80)).toEqual([]);
  });
});
