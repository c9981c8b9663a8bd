import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cache } from '../setup/paths.mjs';
import { runTests } from './run-tests.mjs';

/** Next to nothing of a processor that others want as well, and all of what they do not. */
const nice = 19;

/**
 * Runs tests beside others, behind them. Labs wait for half of their time, and are what notices if packets are late.
 *
 * @param {string} name of its record
 * @returns {{ done: Promise<number>, print: () => void }} its exit code; and what prints what it has printed
 */
export function runAside(name, args) {
  const folder = join(cache, 'logs');
  mkdirSync(folder, { recursive: true });
  const log = join(folder, `${name}-tests.log`);
  const output = openSync(log, 'w');
  const done = runTests(args, process.env, { name, aside: { nice, output } }).finally(() => closeSync(output));
  return { done, print: () => process.stdout.write(readFileSync(log, 'utf8')) };
}
