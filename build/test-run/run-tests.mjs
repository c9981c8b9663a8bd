import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cache, root } from '../setup/paths.mjs';
import { runContained } from './contained.mjs';
import { addFailures } from './record.mjs';

const reporter = join(import.meta.dirname, 'reporter.ts');
const recordsFolder = join(cache, 'test-runs');

/** Record of the last `runTests` of this process under a name, for `readRecord`. */
export const recordFileOf = (name) => join(recordsFolder, `${process.pid}-${name}.json`);

/** Record of a run without a name. */
export const recordFile = recordFileOf('tests');

/**
 * Runs vitest with these arguments, contained.
 *
 * @param {{ name?: string, aside?: { nice: number, output: number } }} options `name` separates its record from that of
 *   another run; `aside` as in `runContained`
 * @returns {Promise<number>} its exit code; not 0 either if it had to be ended, or if tests left processes or namespaces
 */
export async function runTests(args, env = process.env, { name = 'tests', aside } = {}) {
  const record = recordFileOf(name);
  mkdirSync(recordsFolder, { recursive: true });
  rmSync(record, { force: true });
  process.on('exit', () => rmSync(record, { force: true }));
  const reporters = [...(args.some((arg) => arg.startsWith('--reporter')) ? [] : ['--reporter=default']), `--reporter=${reporter}`];
  const troubles = [];
  const code = await runContained('vitest', ['run', ...reporters, ...args], {
    record,
    aside,
    troubles,
    cwd: root,
    // Labs that run from the sources start in half the time, and agents run from the bundle, which the set-up has brought up to date.
    env: { NODE_COMPILE_CACHE: join(cache, 'compiled'), SEINE_LAB_AGENT: 'bundle', ...env, SEINE_TEST_RECORD: record },
  });
  addFailures(record, troubles);
  return code;
}
