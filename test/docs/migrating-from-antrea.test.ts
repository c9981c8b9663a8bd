import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { fromManifests } from '../../src/policy/reach/from-manifests.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import type { AntreaGroupObject, AntreaPolicyObject } from '../model/former-policies.ts';
import { evaluateFormer } from '../model/former-verdict.ts';
import { crdFaults } from '../support/cluster-policy-limits.ts';
import { root } from '../support/source-tree.ts';

/* The guide's files, written where its commands run: conversion, tests, and the verdicts of both sets of policies. */

const page = readFileSync(join(root, 'docs/migrating-from-antrea.md'), 'utf8');
const files = new Map(
  [...page.matchAll(/`([\w./-]+\.yaml)`(?: is)?:\n```yaml\n([\s\S]*?)^```$/gm)].map(([, name = '', text = '']) => [name, text]),
);
const shown = [...page.matchAll(/^```text\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
const folder = mkdtempSync(join(tmpdir(), 'migrating-'));
const before = process.cwd();

beforeAll(() => {
  for (const [name, text] of files) writeFileSync(join(folder, name), text);
  process.chdir(folder);
});
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});

async function seinectl(command: string) {
  const [out, err]: [string[], string[]] = [[], []];
  const room = { width: Number.POSITIVE_INFINITY, paint: plain };
  const terminal = { room, line: (text: string) => void out.push(`${text}\n`), remark: (text: string) => void err.push(`${text}\n`) };
  return { code: await run(command.split(' '), terminal, Readable.from([])), out: out.join(''), err: err.join('') };
}

it('has the files of the guide', () => {
  expect([...files.keys()]).toEqual(['antrea.yaml', 'policies.yaml', 'isolation.yaml', 'workloads.yaml', 'migration-tests.yaml']);
});

it('converts as the guide shows', async () => {
  expect(await seinectl('policy convert -f antrea.yaml')).toEqual({ code: 3, out: files.get('policies.yaml'), err: shown[0] });
});

it('passes the tests of the guide', async () => {
  expect(await seinectl('policy test migration-tests.yaml')).toMatchObject({ code: 0, out: shown[1] });
});

const objectsOf = (name: string): readonly object[] =>
  parseAllDocuments(files.get(name) ?? '').map((document) => document.toJS() as object);

it('writes policies that the API server admits, and that mean what those of Antrea meant', () => {
  const [former, policies, isolation, workloads] = ['antrea.yaml', 'policies.yaml', 'isolation.yaml', 'workloads.yaml'].map(objectsOf);
  const place = (objects: readonly object[] | undefined) => (objects ?? []).map((object) => ({ place: 'guide', object }));
  const after = fromManifests([...place(policies), ...place(isolation), ...place(workloads)]).objects;
  expect(after.clusterNetworkPolicies?.flatMap(crdFaults)).toEqual([]);
  const groups = (former ?? []).filter((each): each is AntreaGroupObject => 'kind' in each && each.kind === 'ClusterGroup');
  const antrea = (former ?? []).filter((each): each is AntreaPolicyObject => 'kind' in each && each.kind !== 'ClusterGroup');
  const cluster = { ...after, clusterNetworkPolicies: [], networkPolicies: [] };
  const pods = after.pods.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip));
  let denied = 0;
  for (const from of [...pods, '203.0.113.9', '2001:db8:1::9'])
    for (const to of [...pods, '10.1.2.3', '10.64.0.1'].filter((each) => each.includes(':') === from.includes(':')))
      for (const port of [22, 5432]) {
        const connection = { from, to, protocol: 'TCP', port };
        const verdict = evaluateFormer(cluster, { antrea, groups, admin: [], tiers: [] }, connection);
        expect([connection, judge(after, connection).verdict]).toEqual([connection, verdict]);
        if (verdict === 'deny') denied++;
      }
  expect(denied).toBeGreaterThan(10);
});
