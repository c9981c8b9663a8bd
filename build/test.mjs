/**
 * `npm test`: every check, fastest first, the slowest files, and one closing line with the sums.
 *
 * Arguments go to vitest and only it runs: `npm test -- test/e2e/demo.test.ts -t 'a name'`. How tests are run: `test-run/README.md`.
 */
import { spawnSync } from 'node:child_process';
import { root } from './setup/paths.mjs';
import { low, lowest, runAside } from './test-run/aside.mjs';
import { sayClosingLine } from './test-run/closing-line.mjs';
import { projectsFor, withoutOthers } from './test-run/other-projects.mjs';
import { readRecord, slowest } from './test-run/record.mjs';
import { recordFile, recordFileOf, runTests } from './test-run/run-tests.mjs';
import { forSecondRun } from './test-run/second-run.mjs';

const slowestCount = 10;
const failuresMost = 20;

const checks = [
  { name: 'types', run: () => check('tsc', '--noEmit', '-p', '.') },
  { name: 'lint and format', run: () => check('biome', 'ci', '--error-on-warnings') },
  { name: 'tests', run: allTests },
];

/** Results of the run of everything, and files that only a second run passed. */
let record = { passed: 0, failed: 0, files: [], failures: [] };
let unsteady = [];

async function allTests() {
  // Unit tests have a lower CPU priority than labs, and their output is printed after the labs'.
  const unit = runAside('unit', ['--project=unit', '--project=fuzz', '--maxWorkers=2'], lowest);
  // So have labs that wait most of their time, one after another.
  const waiting = runAside('waiting', ['--project=waiting', '--maxWorkers=1'], low);
  const codes = [await runTests([...withoutOthers, '--project=!unit', '--project=!fuzz', '--project=!waiting', '--project=!emulated'])];
  for (const [name, aside] of Object.entries({ unit, waiting })) {
    codes.push(await aside.done);
    console.log(`\n▶ beside them: ${name}`);
    aside.print();
  }
  console.log('\n▶ alone: emulated');
  codes.push(await runTests(['--project=emulated'], process.env, { name: 'emulated' }));
  const records = ['tests', 'unit', 'waiting', 'emulated'].map((name) => readRecord(recordFileOf(name)));
  record = sum(records);
  const code = codes.find((each) => each !== 0) ?? 0;
  const again = code === 0 || !records.every((each) => each?.ended) ? [] : forSecondRun(record.files);
  if (again.length === 0) return code;
  console.log(`\n▶ once more, alone: ${again.join(', ')}`);
  const second = await runTests([...withoutOthers, '--no-file-parallelism', ...again], process.env, { name: 'again' });
  if (second === 0) unsteady = again;
  return second;
}

async function someTests(args) {
  const code = await runTests([...projectsFor(args), ...args]);
  record = sum([readRecord(recordFile)]);
  return code;
}

function sum(records) {
  const known = records.filter((each) => each !== undefined);
  return {
    passed: known.reduce((all, { passed }) => all + passed, 0),
    failed: known.reduce((all, { failed }) => all + failed, 0),
    files: known.flatMap(({ files }) => files),
    failures: known.flatMap(({ failures }) => failures),
  };
}

function check(command, ...args) {
  return spawnSync(command, args, { cwd: root, stdio: 'inherit' }).status ?? 1;
}

async function timed({ name, run }) {
  console.log(`\n▶ ${name}`);
  const started = Date.now();
  const code = await run();
  return { name, ok: code === 0, seconds: ((Date.now() - started) / 1000).toFixed(1) };
}

/** A check that is not a test counts as one. */
function sumsOf(results, { passed, failed: failures }) {
  const failed = unsteady.length > 0 ? 0 : failures;
  const others = results.filter(({ name }) => name !== 'tests');
  const failedOutside = failed === 0 && results.some(({ name, ok }) => name === 'tests' && !ok) ? 1 : 0;
  return {
    passed: passed + others.filter(({ ok }) => ok).length,
    failed: failed + failedOutside + others.filter(({ ok }) => !ok).length,
  };
}

function printSlowest() {
  if (record.files.length === 0) return;
  console.log(`\nThe ${Math.min(slowestCount, record.files.length)} slowest files:`);
  for (const line of slowest(record, slowestCount)) console.log(line);
}

/** Repeats failures at the end of the output, where they are seen first. */
function printFailures() {
  if (record.failures.length === 0) return;
  console.log(`\nWhat failed${unsteady.length > 0 ? ' at first' : ''}:`);
  for (const line of record.failures.slice(0, failuresMost)) console.log(`  ${line}`);
  if (record.failures.length > failuresMost) console.log(`  and ${record.failures.length - failuresMost} more`);
}

const only = process.argv.slice(2);
const wanted = only.length > 0 ? [{ name: 'tests', run: () => someTests(only) }] : checks;
const results = [];
for (const one of wanted) results.push(await timed(one));
if (only.length === 0) printSlowest();
printFailures();
console.log('');
for (const { name, ok, seconds } of results) console.log(`${ok ? '✓' : '✗'} ${name} (${seconds} s)`);
for (const file of unsteady)
  console.log(`UNSTEADY: ${file} failed beside others and passed alone. That is a bug: the output above has how it failed.`);
// Callers that sum several runs get the sums of a part, too.
if (only.length === 0 || process.env.SEINE_TEST_SUMS !== undefined) sayClosingLine(sumsOf(results, record));
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
