import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type Command, CommanderError } from 'commander';
import { expect, it } from 'vitest';
import { asked } from '../../build/manifests/asked.ts';
import { programFor } from '../../src/cli/program.ts';
import { alertRules } from '../support/observability.ts';
import { recordingTerminal } from '../support/recording-terminal.ts';

/*
 * What pages and alerts tell people to type is taken by the command line that there is: each word, each option, each value. What it then does is
 * told by the tests of the command; nothing is done here.
 */

const root = join(import.meta.dirname, '..', '..');
const pages = ['README.md', 'SECURITY.md', ...readdirSync(join(root, 'docs')).map((name) => join('docs', name))].filter((path) =>
  path.endsWith('.md'),
);

interface Code {
  readonly line: string;
  /** Between backquotes in a sentence: a command may be named there without what it needs. */
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

interface Call {
  readonly where: string;
  readonly words: readonly string[];
  readonly isNamed: boolean;
}

/** The words of each call of a program, without what the shell does with its output. A word in capitals stands for something of the reader's. */
function callsOf(program: RegExp): readonly Call[] {
  return sources.flatMap(({ where, text }) =>
    codeOf(text).flatMap(({ line, isNamed }) => {
      const [, rest] = new RegExp(`(?:^|[ "'(])${program.source}(?= |$)(.*)`).exec(line.replace(/(^|\s)#\s.*$/, '')) ?? [];
      const call = rest?.split(/ (?:\||>|&&|2>)|[;)]/)[0]?.trim();
      // A form with choices is no call: `get pods\|nodes`, `[NAME]`, `…`.
      return call === undefined || call === '' || /[[\]|…<>]/.test(call)
        ? []
        : [{ where, isNamed, words: call.match(/"[^"]*"|'[^']*'|\S+/g)?.map(unquoted) ?? [] }];
    }),
  );
}

const unquoted = (word: string): string => word.replace(/^(["'])(.*)\1$/s, '$2');

/** For words of which a form is wanted. */
const examples: Readonly<Record<string, string>> = { TIME: '10m', 'FILE|-': 'FILE', LEVEL: 'debug', PORT: '80', 'PORT/PROTOCOL': '80/TCP' };

/** What the command line says to it; nothing if it is taken. */
async function refusal({ words, isNamed }: Call): Promise<string | undefined> {
  const { terminal, err } = recordingTerminal();
  const { command } = programFor(terminal, Readable.from([]));
  idle(command);
  if (isNamed && isCommand(command, words)) return undefined;
  try {
    await command.parseAsync(
      words.map((word) => examples[word] ?? word),
      { from: 'user' },
    );
    return undefined;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return undefined;
    return `${thrown instanceof Error ? thrown.message : thrown} ${err.join(' ')}`;
  }
}

/** Do the words name one, or a group of them, and nothing else? */
function isCommand(command: Command, [first, ...rest]: readonly string[]): boolean {
  if (first === undefined) return true;
  const inner = command.commands.find((each) => each.name() === first || each.aliases().includes(first));
  return inner !== undefined && isCommand(inner, rest);
}

function idle(command: Command): void {
  if (command.commands.length === 0) command.action(() => undefined);
  for (const inner of command.commands) idle(inner);
}

it('has calls of seinectl that are taken by its command line', async () => {
  const calls = callsOf(/seinectl/);
  expect(calls.length).toBeGreaterThan(100);
  const refused = await Promise.all(
    calls.map(async (call) => ({ call: `${call.where}: seinectl ${call.words.join(' ')}`, said: await refusal(call) })),
  );
  expect(refused.filter(({ said }) => said !== undefined)).toEqual([]);
});

it('has calls of the renderer that it takes', () => {
  const calls = callsOf(/npm run render --/);
  expect(calls.length).toBeGreaterThan(8);
  const refused = calls.flatMap(({ where, words }) => {
    const given = words.map((word) => word.replaceAll(/\b(?:CONTROL-PLANE|SERVER)-ADDRESS\b/g, '192.0.2.1'));
    try {
      asked(given);
      return [];
    } catch (error) {
      return [`${where}: ${words.join(' ')}: ${error instanceof Error ? error.message : error}`];
    }
  });
  expect(refused).toEqual([]);
});
