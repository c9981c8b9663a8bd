import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cache } from '../setup/paths.mjs';
import { runTests } from './run-tests.mjs';

/** Lowest priority: hardly any CPU time if others need it, all of it otherwise. */
export const lowest = 19;
/** A tenth of the CPU time of each of the others, if all need it: deadlines of seconds hold. */
export const low = 10;

/**
 * Runs tests concurrently with others, at low priority. Labs wait for a part of their time, and are what late packets affect.
 *
 * @param {string} name of its record
 * @param {number} nice niceness, as in nice(1)
 * @returns {{ done: Promise<number>, print: () => void }} its exit code; and a function that prints its output
 */
export function runAside(name, args, nice) {
  const folder = join(cache, 'logs');
  mkdirSync(folder, { recursive: true });
  const log = join(folder, `${name}-tests.log`);
  const output = openSync(log, 'w');
  const done = runTests(args, process.env, { name, aside: { nice, output } }).finally(() => closeSync(output));
  return { done, print: () => process.stdout.write(readFileSync(log, 'utf8')) };
}
