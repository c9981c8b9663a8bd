/**
 * `npm test`: every check, fastest first, and one closing line with the sums.
 *
 * With arguments they go to vitest and only it runs: `npm test -- test/e2e/demo.test.ts`.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cache, root } from './setup/paths.mjs';

const resultsFile = join(cache, 'test-results.json');

const checks = [
  { name: 'types', command: ['tsc', '--noEmit', '-p', '.'] },
  { name: 'lint and format', command: ['biome', 'ci', '--error-on-warnings'] },
  {
    name: 'tests',
    command: [
      'vitest',
      'run',
      '--project=!runtime',
      '--project=!upgrade',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${resultsFile}`,
    ],
  },
];

function run({ name, command: [command, ...args] }) {
  console.log(`\n▶ ${name}: ${command} ${args.filter((arg) => !arg.includes('json')).join(' ')}`);
  const started = Date.now();
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  return { name, ok: status === 0, seconds: ((Date.now() - started) / 1000).toFixed(1) };
}

/** `N passed, N failed`, from vitest's own record; a check that is no test counts as one. */
function closingLine(results) {
  const others = results.filter(({ name }) => name !== 'tests');
  const { numPassedTests, numFailedTests } = testCounts();
  const failedOutside = numFailedTests === 0 && results.some(({ name, ok }) => name === 'tests' && !ok) ? 1 : 0;
  const passed = numPassedTests + others.filter(({ ok }) => ok).length;
  return `${passed} passed, ${numFailedTests + failedOutside + others.filter(({ ok }) => !ok).length} failed`;
}

function testCounts() {
  try {
    return JSON.parse(readFileSync(resultsFile, 'utf8'));
  } catch {
    // vitest died before it wrote anything.
    return { numPassedTests: 0, numFailedTests: 0 };
  }
}

const only = process.argv.slice(2);
mkdirSync(cache, { recursive: true });
rmSync(resultsFile, { force: true });
const results = only.length > 0 ? [run({ name: 'tests', command: ['vitest', 'run', ...only] })] : checks.map(run);
console.log('');
for (const { name, ok, seconds } of results) console.log(`${ok ? '✓' : '✗'} ${name} (${seconds} s)`);
if (only.length === 0) console.log(closingLine(results));
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
