import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

interface DocumentPage {
  readonly path: string;
  readonly text: string;
}

const read = (path: string): DocumentPage => ({ path, text: readFileSync(join(root, path), 'utf8') });
const filesOf = (folder: string): readonly string[] =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map(({ name }) => join(folder, name));

/** Pages for users. */
export function productPages(): readonly DocumentPage[] {
  return ['README.md', 'SECURITY.md', ...['docs', 'docs/installation', 'docs/reference'].flatMap(filesOf)].map(read);
}

/** Pages for users and for contributors, without decision records, records of runs and the changelog. */
export function allPages(): readonly DocumentPage[] {
  return [
    ...productPages(),
    ...['CONTRIBUTING.md', ...['docs/contributing', 'docs/design'].flatMap(filesOf), 'docs/adr/README.md'].map(read),
  ];
}

/** A page without the blocks that `npm run docs` writes into it. */
export function withoutGenerated(text: string): string {
  return text.replaceAll(/<!-- ([\w ]+) -->.*?<!-- end of \1 -->/gs, '');
}

const withoutBlocks = (text: string): string => text.replaceAll(/^ *```.*?^ *```$/gms, '').replaceAll(/<!--.*?-->/gs, '');
const isTableLine = (line: string): boolean => line.trimStart().startsWith('|');

/** Text outside of code blocks, tables and headings. Code and links count as one word each. */
export function proseOf(text: string): string {
  const lines = withoutBlocks(text).split('\n');
  const prose = lines.map((line) => (isTableLine(line) || /^#+ /.test(line) ? '' : line.replace(/^\s*(?:[-*>]|\d+\.)\s+/, '\n')));
  return prose
    .join('\n')
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/\]\([^)]*\)/g, ']');
}

/** Sentences of paragraphs; a list item ends one. */
export function sentencesOf(prose: string): readonly string[] {
  return prose
    .split(/\n{2,}/)
    .flatMap((paragraph) => paragraph.replaceAll('\n', ' ').split(/(?<=[.!?][)"”’]?)\s+/))
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== '');
}

/** Cells of all tables, without the target of links. */
export function cellsOf(text: string): readonly string[] {
  return withoutBlocks(text)
    .split('\n')
    .filter(isTableLine)
    .flatMap((line) => line.replaceAll('\\|', '¦').split('|').slice(1, -1))
    .map((cell) => cell.trim().replaceAll(/\]\([^)]*\)/g, ']'));
}

interface Heading {
  readonly level: number;
  readonly title: string;
}

export function headingsOf(text: string): readonly Heading[] {
  return Array.from(withoutBlocks(text).matchAll(/^(#+) (.*)$/gm), ([, marks = '', title = '']) => ({ level: marks.length, title }));
}
