import { parseArgs } from 'node:util';
import { afterEach, expect, it, vi } from 'vitest';
import { runScript, UsageError, wholeNumber } from './script.ts';

afterEach(() => {
  process.exitCode = undefined;
  vi.restoreAllMocks();
});

it.each([
  ['an option that is none', () => parseArgs({ args: ['--frobnicate'], options: {} }), /^Unknown option '--frobnicate'.*--help/],
  ['a number that is none', () => wholeNumber('runs', '1e6'), /^--runs "1e6": a whole number from 1 on/],
  ['what a script refuses', () => Promise.reject(new UsageError('no row begins with "x"')), /^no row begins with "x"/],
])('reports %s in one line, and ends with 2', async (_, work, line) => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  await runScript(async () => work());
  expect(said.mock.calls).toEqual([[expect.stringMatching(line)]]);
  expect(process.exitCode).toBe(2);
});

it('hides no other failure', async () => {
  await expect(runScript(() => Promise.reject(new Error('the lab does not come up')))).rejects.toThrow('the lab');
});

it('reads whole numbers', () => {
  expect([wholeNumber('seed', '0', 0), wholeNumber('runs', '1000000')]).toEqual([0, 1_000_000]);
});
