import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { conformancePage } from '../../build/docs/conformance-page.ts';
import { recordedRuns, recordPart, recordRun } from '../../build/kubernetes/upstream-records.mjs';
import { isWhole, ranAgain, summaryOf } from '../../build/kubernetes/upstream-report.mjs';
import { expectedFailures, focusOf, leftOut, readResults, sets, surprises } from '../../build/kubernetes/upstream-tests.mjs';

const names = {
  policy: "[sig-network] Netpol NetworkPolicy between server and client should support a 'default-deny-ingress' policy",
  conformance: '[sig-network] Services should be able to change the type from ClusterIP to ExternalName [Conformance]',
  other: '[sig-node] Pods should be submitted and removed [Conformance]',
};

it("selects upstream's tests of a set, a few of them, or those with a name", () => {
  for (const set of ['policy', 'conformance'] as const) {
    for (const short of [false, true]) expect(names[set]).toMatch(new RegExp(focusOf(set, { short }).focus));
    expect(names.other).not.toMatch(new RegExp(focusOf(set, {}).focus));
    expect(names[set]).not.toMatch(new RegExp(sets[set].skip));
    // The set of all network tests contains its parts.
    expect(names[set]).toMatch(new RegExp(focusOf('e2e', {}).focus));
    expect(names[set]).not.toMatch(new RegExp(sets.e2e.skip));
  }
  expect(names.other).not.toMatch(new RegExp(focusOf('e2e', {}).focus));
  expect(names.policy).toMatch(new RegExp(focusOf('policy', { focus: 'default-deny' }).focus));
  expect(names.policy).not.toMatch(new RegExp(focusOf('policy', { focus: 'named port' }).focus));
  expect(names.conformance).toMatch(new RegExp(focusOf('conformance', { focus: 'ExternalName' }).focus));
});

it('reports an unexpected failure, and an expected one that did not occur', () => {
  const known = '[sig-network] Networking should check kube-proxy urls';
  const result = (name: string, state: string) => ({ name, state, seconds: 1, said: '' });
  expect(surprises([result(known, 'failed'), result('[sig-network] A works', 'passed')])).toEqual([]);
  const wrong = [result(known, 'passed'), result('[sig-network] A works', 'failed')];
  expect(surprises(wrong)).toEqual(wrong);
  expect([...leftOut, ...expectedFailures].filter(({ why }) => why === '')).toEqual([]);
});

it('keeps the result and reason of each test in a report, and makes a page of it', () => {
  const spec = (group: string, text: string, state: string, message?: string) => ({
    ContainerHierarchyTexts: [`[sig-network] ${group}`, 'Granular'],
    LeafNodeText: text,
    LeafNodeType: 'It',
    State: state,
    ...(message !== undefined && { Failure: { Message: message } }),
  });
  const reports = [
    spec('Services', 'works [Conformance]', 'passed'),
    spec('Services', 'does not', 'failed', 'no answer\nfrom nowhere'),
    spec('Networking', 'should check kube-proxy urls', 'failed', 'exit code 7'),
    spec('Topology', 'needs six', 'skipped', 'need six nodes'),
    spec('LoadBalancers [Feature:LoadBalancer]', 'balances', 'skipped'),
    { ...spec('Pods', 'run', 'passed'), ContainerHierarchyTexts: ['[sig-node] Pods'] },
  ];
  const file = join(mkdtempSync(join(tmpdir(), 'seine-report-')), 'report.json');
  writeFileSync(file, JSON.stringify([{ RunTime: 90e9, SpecReports: reports }]));
  const about = { families: 'ipv6,ipv4', date: '2026-11-23', command: 'npm run it', versions: { Linux: '6.18' } };
  const run = summaryOf(file, about);
  expect(isWhole(file)).toBe(true);
  writeFileSync(file, JSON.stringify([{ RunTime: 1e9, SpecReports: [], SpecialSuiteFailureReasons: ['Interrupted by User'] }]));
  expect(isWhole(file)).toBe(false);
  rmSync(file);
  expect(run.tests.map(({ group, state }) => `${group} ${state}`)).toEqual([
    'LoadBalancers [Feature:LoadBalancer] left out',
    'Networking failed',
    'Services failed',
    'Services passed',
    'Topology skipped',
  ]);
  const page = conformancePage([run]);
  expect(page).toContain('| Services | 1 of 2 |');
  expect(page).toContain('| of these, conformance tests | 1 of 1 |');
  expect(page).toContain('| Services Granular does not | every | unknown: no answer |');
  const known = expectedFailures.find(({ pattern }) => pattern.includes('kube-proxy urls'));
  expect(page).toContain(`| Networking Granular should check kube-proxy urls | every | ${known?.why} |`);
  const later = { ...run, date: '2026-11-24', tests: run.tests.map((test) => ({ ...test, state: 'passed' as const })) };
  expect(conformancePage([ranAgain(run, later)])).toContain(
    '| Services Granular does not | every | passed in a later run (2026-11-24), after: no answer |',
  );
  expect(page).toContain('| Topology Granular needs six | every | need six nodes |');
  expect(page).toContain("| needs a cloud's load balancer | 1 |");
});

it('keeps the last three whole runs of each order, and marks failures that did not recur', () => {
  const folder = mkdtempSync(join(tmpdir(), 'seine-runs-'));
  const run = (families: string, date: string, state: 'failed' | 'passed') => {
    const tests = [{ group: 'Services', name: 'work', state, said: 'no answer' }];
    return { families, date, command: 'npm run it', versions: { Linux: '6.18' }, minutes: 40, tests };
  };
  try {
    for (const day of [1, 2, 3, 4]) recordRun(folder, run('ipv4,ipv6', `2026-11-0${day}`, 'failed'));
    recordRun(folder, run('ipv6,ipv4', '2026-11-05', 'failed'));
    recordPart(folder, run('ipv4,ipv6', '2026-11-06', 'passed'));
    const kept = recordedRuns(folder);
    expect(kept.map(({ families, date, tests }) => `${families} ${date} ${tests[0]?.again}`)).toEqual([
      'ipv4,ipv6 2026-11-02 2026-11-06',
      'ipv4,ipv6 2026-11-03 2026-11-06',
      'ipv4,ipv6 2026-11-04 2026-11-06',
      'ipv6,ipv4 2026-11-05 undefined',
    ]);
    recordRun(folder, run('ipv6,ipv4', '2026-11-07', 'passed'));
    expect(recordedRuns(folder).at(-2)?.tests[0]?.again).toBe('2026-11-07');
    const page = conformancePage(kept);
    expect(page).toContain('|  | IPv4 first, 1 | IPv4 first, 2 | IPv4 first, 3 | IPv6 first |');
    expect(page).toContain('| Services work | IPv6 first | unknown: no answer |');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('reads results of tests, and failures outside of tests', () => {
  const folder = mkdtempSync(join(tmpdir(), 'seine-report-'));
  const file = join(folder, 'report.json');
  const it1 = { ContainerHierarchyTexts: ['[sig-network] A'], LeafNodeText: 'works', LeafNodeType: 'It', RunTime: 2e9 };
  const reports = [
    { ...it1, State: 'passed' },
    { ...it1, State: 'failed', Failure: { Message: 'it did not\nmore' } },
    { ...it1, State: 'skipped' },
    { ContainerHierarchyTexts: null, LeafNodeText: '', LeafNodeType: 'SynchronizedBeforeSuite', State: 'passed', RunTime: 0 },
    { ContainerHierarchyTexts: null, LeafNodeText: '', LeafNodeType: 'SynchronizedAfterSuite', State: 'timedout', RunTime: 0 },
  ];
  try {
    writeFileSync(file, JSON.stringify([{ SpecReports: reports }]));
    expect(readResults(file)).toEqual([
      { name: '[sig-network] A works', state: 'passed', seconds: 2, said: '' },
      { name: '[sig-network] A works', state: 'failed', seconds: 2, said: 'it did not' },
      { name: 'SynchronizedAfterSuite', state: 'timedout', seconds: 0, said: '' },
    ]);
    expect(readResults(join(folder, 'none.json'))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
