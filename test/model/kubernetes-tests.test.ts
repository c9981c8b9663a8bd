import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { focusOf, readResults, sets } from '../../build/kubernetes/upstream-tests.mjs';

const names = {
  policy: "[sig-network] Netpol NetworkPolicy between server and client should support a 'default-deny-ingress' policy",
  conformance: '[sig-network] Services should be able to change the type from ClusterIP to ExternalName [Conformance]',
  other: '[sig-node] Pods should be submitted and removed [Conformance]',
};

it('asks upstream for the tests of a set, a few of them, or those of a name', () => {
  for (const set of ['policy', 'conformance'] as const) {
    for (const short of [false, true]) expect(names[set]).toMatch(new RegExp(focusOf(set, { short }).focus));
    expect(names.other).not.toMatch(new RegExp(focusOf(set, {}).focus));
    expect(names[set]).not.toMatch(new RegExp(sets[set].skip));
  }
  expect(names.policy).toMatch(new RegExp(focusOf('policy', { focus: 'default-deny' }).focus));
  expect(names.policy).not.toMatch(new RegExp(focusOf('policy', { focus: 'named port' }).focus));
  expect(names.conformance).toMatch(new RegExp(focusOf('conformance', { focus: 'ExternalName' }).focus));
});

it('reads what ran and how it ended, and failures outside of tests', () => {
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
