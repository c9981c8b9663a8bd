/**
 * `npm run test:crash`: kills the agent 200 times in the midst of ADD and DEL, for each kind of interface; `npm test` does a part.
 *
 * `SEINE_TEST_KILLS` for another number, `SEINE_TEST_SEED` to do again what an earlier run printed.
 */
import { runTests } from './test-run/run-tests.mjs';

const env = { SEINE_TEST_KILLS: '200', ...process.env };
process.exitCode = await runTests(['--project', 'e2e', 'test/e2e/converge-crash.test.ts'], env);
