import { join } from 'node:path';
import { type RecordedRun, recordedRuns } from '../kubernetes/upstream-records.mjs';
import { knownReason, type UpstreamTest } from '../kubernetes/upstream-report.mjs';

const folder = join(import.meta.dirname, '..', '..', 'test', 'fixtures', 'conformance');

/** `docs/records/conformance.md`, from the recorded runs. */
export function conformancePage(runs = recordedRuns(folder)): string {
  return [
    '# Records: conformance',
    '',
    'Results of the `[sig-network]` end-to-end tests of Kubernetes on [a real Kubernetes](../contributing/lab-kubernetes.md), with Seine as network and Service proxy. Tests run in parallel and are not retried.',
    '',
    newest(runs),
    '',
    'Generated from the reports in `test/fixtures/conformance`. `npm run test:kubernetes -- --only e2e --record` adds a report for each order of the IP families and keeps the last three.',
    '',
    '## Runs',
    '',
    runsTable(runs),
    '',
    '## Groups',
    '',
    'Passed tests of those that ran.',
    '',
    groupsTable(runs),
    '',
    ...laterRunsSection(),
    '## Failed tests',
    '',
    reasonsTable(runs, 'failed', failure),
    '',
    '## Tests that skipped themselves',
    '',
    reasonsTable(runs, 'skipped', ({ said }) => said ?? ''),
    '',
    '## Tests not selected',
    '',
    leftOutTable(runs),
    '',
    ...inTheCode,
  ].join('\n');
}

const inTheCode: readonly string[] = [
  '## In the code',
  '',
  '- `build/kubernetes/upstream-tests.mjs`: selected tests, and the reason for each other test',
  '- `build/kubernetes/upstream-report.mjs`: the recorded part of a report',
  '- `build/docs/conformance-page.ts`: this page',
  '',
];

/** Runs of later releases: release, interfaces of pods, families, result. */
const laterRuns: readonly (readonly [string, string, string, string])[] = [
  ['0.18.0', 'veth pairs', 'IPv4; both for the tests of two families', '183 passed, six failed; 22 of 22 of two families, in both orders'],
  ['0.20.0', 'veth pairs', 'IPv4 first', '203 passed, six failed'],
  ['0.21.0', 'pre-plugged ports', 'IPv4 first', '202 passed, six failed, and one under load 20 to 28 that passed alone'],
  ['0.22.0', 'pre-plugged ports', 'IPv6 first', '203 passed, six failed'],
  ['0.25.0', 'pre-plugged ports', 'both, `--short`', '24 of 24'],
];

function laterRunsSection(): readonly string[] {
  return [
    '## Later runs',
    '',
    'Their reports were not kept. "Six" are the failures of the table below.',
    '',
    '| Seine | Pods | Families | Result |',
    '| --- | --- | --- | --- |',
    ...laterRuns.map((run) => `| ${run.join(' | ')} |`),
    '',
  ];
}

/** Sentence about the newest recorded run: results of later releases are not recorded here. */
function newest(runs: readonly RecordedRun[]): string {
  const [release = '', date = ''] =
    runs
      .map((run) => [run.versions['Seine'] ?? '', run.date] as const)
      .toSorted(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
      .at(-1) ?? [];
  const kind = release.localeCompare('0.21.0', 'en', { numeric: true }) < 0 ? ' Pods had veth pairs, the default until 0.20.0.' : '';
  return `The newest stored report is of release ${release} (${date}).${kind} [Later runs](#later-runs) are listed without their reports.`;
}

function failure(test: UpstreamTest): string {
  const { said = '', again } = test;
  const why = knownReason(test);
  if (why !== undefined) return why;
  return again === undefined ? `unknown: ${said}` : `passed in a later run (${again}), after: ${said}`;
}

const orderOf = ({ families }: RecordedRun): string => (families.startsWith('ipv4') ? 'IPv4 first' : 'IPv6 first');
/** Name of a run; a number tells it from others of its order. */
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
      ['skipped by themselves', ...runs.map((run) => count(run, 'skipped'))],
      ['not selected', ...runs.map((run) => count(run, 'left out'))],
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

/** One line per test and reason. */
function reasonsTable(runs: readonly RecordedRun[], state: UpstreamTest['state'], why: (test: UpstreamTest) => string): string {
  const lines = new Map<string, { readonly test: string; readonly reason: string; readonly names: string[] }>();
  for (const run of runs)
    for (const test of run.tests.filter((each) => each.state === state)) {
      const line = { test: `${test.group} ${test.name}`, reason: why(test), names: [] as string[] };
      const key = `${line.test} ${line.reason}`;
      lines.set(key, lines.get(key) ?? line);
      lines.get(key)?.names.push(nameOf(runs, run));
    }
  if (lines.size === 0) return 'None.';
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
  if (reasons.size === 0) return 'None.';
  const rows = [...reasons].map(([reason, tests]) => [reason, String(tests.size), [...tests].join('; ')]);
  return table(['Why', 'Tests', 'Which'], rows);
}
