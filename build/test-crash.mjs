/**
 * `npm run test:crash`: kills the agent 200 times in the midst of ADD and DEL, of which `npm test` does a part.
 *
 * `SEINE_TEST_KILLS` for another number, `SEINE_TEST_SEED` to do again what an earlier run printed.
 */
import { spawnSync } from 'node:child_process';
import { root } from './setup/paths.mjs';

const env = { SEINE_TEST_KILLS: '200', ...process.env };
const { status } = spawnSync('vitest', ['run', '--project', 'e2e', 'test/e2e/converge-crash.test.ts'], {
  cwd: root,
  stdio: 'inherit',
  env,
});
process.exitCode = status ?? 1;
