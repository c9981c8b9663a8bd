import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { alertRules } from './observability.ts';

const root = join(import.meta.dirname, '..', '..');
const folders = ['docs', 'docs/installation', 'docs/reference'];
const pages = [
  'README.md',
  'SECURITY.md',
  ...folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name))),
].filter((path) => path.endsWith('.md'));

interface Code {
  readonly line: string;
  /** In backquotes in a sentence: a command may be named there without its arguments. */
  readonly isNamed: boolean;
}

/** Lines of shell blocks, and code between backquotes. */
function codeOf(text: string): readonly Code[] {
  const blocks = [...text.matchAll(/^ *```sh\n(.*?)^ *```$/gms)].flatMap(([, block = '']) => block.split('\n'));
  const inline = [...text.replace(/^ *```.*?^ *```$/gms, '').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  return [...blocks.map((line) => ({ line, isNamed: false })), ...inline.map((line) => ({ line, isNamed: true }))];
}

const sources = [
  ...pages.map((path) => ({ where: path, text: readFileSync(join(root, path), 'utf8') })),
  ...alertRules().map(({ alert, annotations }) => ({ where: `alert ${alert}`, text: Object.values(annotations).join('\n') })),
];

export interface PageCall {
  readonly where: string;
  readonly words: readonly string[];
  readonly isNamed: boolean;
}

/** The words of each call of a program, without redirections of the shell. A word in capitals stands for a value of the reader's. */
export function callsOf(program: RegExp): readonly PageCall[] {
  return sources.flatMap(({ where, text }) =>
    codeOf(text).flatMap(({ line, isNamed }) => {
      const [, rest] = new RegExp(`(?:^|[ "'(])${program.source}(?= |$)(.*)`).exec(line.replace(/(^|\s)#\s.*$/, '')) ?? [];
      const call = rest?.split(/ (?:\||>|&&|2>)|[;)]/)[0]?.trim();
      // A form with choices is not a call: `get pods\|nodes`, `[NAME]`, `…`.
      return call === undefined || call === '' || /[[\]|…<>]/.test(call)
        ? []
        : [{ where, isNamed, words: call.match(/"[^"]*"|'[^']*'|\S+/g)?.map(unquoted) ?? [] }];
    }),
  );
}

const unquoted = (word: string): string => word.replace(/^(["'])(.*)\1$/s, '$2');
