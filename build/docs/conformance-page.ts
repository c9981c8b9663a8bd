import { join } from 'node:path';
import { type RecordedRun, recordedRuns } from '../kubernetes/upstream-records.mjs';
import { knownReason, type UpstreamTest } from '../kubernetes/upstream-report.mjs';

const folder = join(import.meta.dirname, '..', '..', 'test', 'fixtures', 'conformance');

/** `docs/conformance.md`, from the runs that are on record. */
export function conformancePage(runs = recordedRuns(folder)): string {
  return [
    '# Conformance',
    '',
    'What became of every end-to-end test that Kubernetes has for the network (`[sig-network]`), on [a real Kubernetes](lab-kubernetes.md) with Seine as its network and its Service proxy.',
    'Tests ran side by side, and none was tried twice. This page is generated from the reports that are kept in `test/fixtures/conformance`; `npm run test:kubernetes -- --only e2e --record` adds one of each order of the families and keeps the last three.',
    '',
    '## What was run',
    '',
    runsTable(runs),
    '',
    '## By group',
    '',
    'How many passed of those that ran.',
    '',
    groupsTable(runs),
    '',
    '## What failed',
    '',
    reasonsTable(runs, 'failed', failure),
    '',
    '## What upstream left out by itself',
    '',
    reasonsTable(runs, 'skipped', ({ said }) => said ?? ''),
    '',
    '## What was not asked for',
    '',
    leftOutTable(runs),
    '',
    '## In the code',
    '',
    '- `build/kubernetes/upstream-tests.mjs`: which tests are asked for, and why others are not',
    '- `build/kubernetes/upstream-report.mjs`: what is kept of a report',
    '- `build/docs/conformance-page.ts`: this page',
    '',
  ].join('\n');
}

function failure(test: UpstreamTest): string {
  const { said = '', again } = test;
  const why = knownReason(test);
  if (why !== undefined) return why;
  return again === undefined ? `not known: ${said}` : `passed in a later run (${again}), after: ${said}`;
}

const orderOf = ({ families }: RecordedRun): string => (families.startsWith('ipv4') ? 'IPv4 first' : 'IPv6 first');
/** What a run is called, beside the others of its order. */
function nameOf(runs: readonly RecordedRun[], run: RecordedRun): string {
  const sameOrder = runs.filter((other) => orderOf(other) === orderOf(run));
  return sameOrder.length === 1 ? orderOf(run) : `${orderOf(run)}, ${sameOrder.indexOf(run) + 1}`;
}
const namesOf = (runs: readonly RecordedRun[]): string[] => runs.map((run) => nameOf(runs, run));
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(inCell).join(' | ')} |`).join('\n');
const inCell = (text: string): string => text.replaceAll('|', '\\|');
const count = ({ tests }: RecordedRun, state: UpstreamTest['state']): string => String(tests.filter((test) => test.state === state).length);

function runsTable(runs: readonly RecordedRun[]): string {
  const conformance = ({ tests }: RecordedRun): string => {
    const all = tests.filter(({ name }) => name.includes('[Conformance]'));
    return `${all.filter(({ state }) => state === 'passed').length} of ${all.length}`;
  };
  const names = [...new Set(runs.flatMap(({ versions }) => Object.keys(versions)))];
  return table(
    ['', ...namesOf(runs)],
    [
      ['date', ...runs.map(({ date }) => date)],
      ['command', ...runs.map(({ command }) => `\`${command}\``)],
      ...names.map((name) => [name, ...runs.map(({ versions }) => versions[name] ?? '')]),
      ['took', ...runs.map(({ minutes }) => `${minutes} minutes`)],
      ['passed', ...runs.map((run) => count(run, 'passed'))],
      ['of these, conformance tests', ...runs.map(conformance)],
      ['failed', ...runs.map((run) => count(run, 'failed'))],
      ['left out by upstream', ...runs.map((run) => count(run, 'skipped'))],
      ['not asked for', ...runs.map((run) => count(run, 'left out'))],
    ],
  );
}

function groupsTable(runs: readonly RecordedRun[]): string {
  const groups = new Set(runs.flatMap(({ tests }) => tests.map(({ group }) => group)));
  const cell = ({ tests }: RecordedRun, group: string): string => {
    const ran = tests.filter((test) => test.group === group && (test.state === 'passed' || test.state === 'failed'));
    return ran.length === 0 ? 'none ran' : `${ran.filter(({ state }) => state === 'passed').length} of ${ran.length}`;
  };
  const rows = [...groups].toSorted().map((group) => [group, ...runs.map((run) => cell(run, group))]);
  return table(['Group', ...namesOf(runs)], rows);
}

/** One line a test; a test of which all runs say the same has one line. */
function reasonsTable(runs: readonly RecordedRun[], state: UpstreamTest['state'], why: (test: UpstreamTest) => string): string {
  const lines = new Map<string, { readonly test: string; readonly reason: string; readonly names: string[] }>();
  for (const run of runs)
    for (const test of run.tests.filter((each) => each.state === state)) {
      const line = { test: `${test.group} ${test.name}`, reason: why(test), names: [] as string[] };
      const key = `${line.test} ${line.reason}`;
      lines.set(key, lines.get(key) ?? line);
      lines.get(key)?.names.push(nameOf(runs, run));
    }
  if (lines.size === 0) return 'Nothing.';
  const rows = [...lines.values()].map(({ test, reason, names }) => [
    test,
    names.length === runs.length ? 'every' : names.join('; '),
    reason,
  ]);
  return table(['Test', 'Run', 'Why'], rows);
}

function leftOutTable(runs: readonly RecordedRun[]): string {
  const reasons = new Map<string, Set<string>>();
  for (const { group, name, said = '' } of runs.flatMap(({ tests }) => tests.filter(({ state }) => state === 'left out')))
    reasons.set(said, (reasons.get(said) ?? new Set()).add(`${group} ${name}`));
  if (reasons.size === 0) return 'Nothing.';
  const rows = [...reasons].map(([reason, tests]) => [reason, String(tests.size), [...tests].join('; ')]);
  return table(['Why', 'Tests', 'Which'], rows);
}
