import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cache, root } from '../setup/paths.mjs';
import { runContained } from './contained.mjs';

const reporter = join(import.meta.dirname, 'reporter.ts');
const recordsFolder = join(cache, 'test-runs');

/** What the last `runTests` of this process has come to: `readRecord` reads it. */
export const recordFile = join(recordsFolder, `${process.pid}.json`);
process.on('exit', () => rmSync(recordFile, { force: true }));

/**
 * Runs vitest with these arguments, contained.
 *
 * @returns {Promise<number>} its exit code; not 0 either if it had to be ended, or if tests left processes or namespaces
 */
export async function runTests(args, env = process.env) {
  mkdirSync(recordsFolder, { recursive: true });
  rmSync(recordFile, { force: true });
  const reporters = [...(args.some((arg) => arg.startsWith('--reporter')) ? [] : ['--reporter=default']), `--reporter=${reporter}`];
  return await runContained('vitest', ['run', ...reporters, ...args], {
    record: recordFile,
    cwd: root,
    // Agents and labs that run from the sources start in half the time.
    env: { NODE_COMPILE_CACHE: join(cache, 'compiled'), ...env, SEINE_TEST_RECORD: recordFile },
  });
}
