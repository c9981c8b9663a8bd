import { Readable } from 'node:stream';
import { type Command, CommanderError } from 'commander';
import { expect, it } from 'vitest';
import { asked } from '../../build/manifests/asked.ts';
import { programFor } from '../../src/seinectl/program.ts';
import { callsOf, type PageCall } from '../support/page-calls.ts';
import { recordingTerminal } from '../support/recording-terminal.ts';

/*
 * Commands on pages and in alerts are accepted by the command line: each word, each option, each value. Tests of the commands check their
 * effect; nothing is executed here.
 */

/** Values for words that require a form. */
const examples: Readonly<Record<string, string>> = { TIME: '10m', 'FILE|-': 'FILE', LEVEL: 'debug', PORT: '80', 'PORT/PROTOCOL': '80/TCP' };

/** Error of the command line; undefined if it accepts the words. */
async function refusal({ words, isNamed }: PageCall): Promise<string | undefined> {
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

/** Reports whether the words name a command, or a group, and nothing else. */
function isCommand(command: Command, [first, ...rest]: readonly string[]): boolean {
  if (first === undefined) return true;
  const inner = command.commands.find((each) => each.name() === first || each.aliases().includes(first));
  return inner !== undefined && isCommand(inner, rest);
}

function idle(command: Command): void {
  if (command.commands.length === 0 || (command.parent !== null && command.options.length > 0)) command.action(() => undefined);
  for (const inner of command.commands) idle(inner);
}

it('has calls of seinectl that its command line accepts', async () => {
  const calls = callsOf(/seinectl/);
  expect(calls.length).toBeGreaterThan(100);
  const refused = await Promise.all(
    calls.map(async (call) => ({ call: `${call.where}: seinectl ${call.words.join(' ')}`, said: await refusal(call) })),
  );
  expect(refused.filter(({ said }) => said !== undefined)).toEqual([]);
});

it('has calls of the renderer that it accepts', () => {
  const calls = callsOf(/npm run render --/);
  expect(calls.length).toBeGreaterThan(8);
  const refused = calls.flatMap(({ where, words }) => {
    const given = words
      .map((word) => word.replaceAll(/\b(?:CONTROL-PLANE|SERVER)-ADDRESS\b/g, '192.0.2.1'))
      .map((word) => word.replace(/@DIGEST$/, `@sha256:${'0'.repeat(64)}`));
    try {
      asked(given);
      return [];
    } catch (error) {
      return [`${where}: ${words.join(' ')}: ${error instanceof Error ? error.message : error}`];
    }
  });
  expect(refused).toEqual([]);
});
