import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { markedProcesses } from '../../lab/machine/process.ts';
import { labIdOf, realLabDir } from '../../lab/plan/names.ts';
import { type Ran, runProgram } from '../support/run-program.ts';

/** The demo is the main job, so it is also the first test of everything together. */
const root = join(import.meta.dirname, '..', '..');
const dir = `/run/seine-e2e-${randomBytes(3).toString('hex')}`;

interface Report {
  readonly ok: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string; readonly ms: number }[];
}

function node(...args: string[]): Promise<Ran> {
  return runProgram(process.execPath, args, { cwd: root, env: { ...process.env, SEINE_LAB_DIR: dir } });
}

const demo = (...args: string[]) => node('lab/demo.ts', '--dir', dir, '--json', ...args);

function reportOf({ stdout }: Ran): Report {
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
}

function expectedChecks(families: readonly string[], { nodes }: { readonly nodes: number }): string[] {
  const across = nodes > 1;
  return [
    'lab.ready',
    'pods.ready',
    ...families.flatMap((family) =>
      [
        'pod-pod.same-node',
        ...(across ? ['pod-pod.cross-node'] : []),
        'pod-host',
        ...(across ? ['host-remote-pod'] : []),
        'pod-outside',
        'tcp-1mb',
        'udp-4000',
      ].map((name) => `${name}.${family}`),
    ),
    ...families.flatMap((family) => ['service.spread', 'service.hairpin', 'service.empty-refused'].map((name) => `${name}.${family}`)),
    ...families.flatMap((family) => ['nodeport.outside', 'service.removed-under-load'].map((name) => `${name}.${family}`)),
    ...families.flatMap((family) => ['allow', 'deny', 'log', 'live-cut', 'first-packet'].map((name) => `policy.${name}.${family}`)),
    ...families.flatMap((family) => [`clusterpolicy.deny.${family}`, `policy.reject.${family}`]),
    ...families.flatMap((family) => ['service', 'denied', 'probe'].map((name) => `trace.${name}.${family}`)),
    'trace.fault',
    'flows.on',
    ...families.flatMap((family) => ['service', 'denied'].map((name) => `flows.${name}.${family}`)),
    'flows.off',
    'cni.check',
    'agent.restart-lossless',
    'flows.by-table',
  ];
}

function whatIsLeft(): { namespaces: string[]; processes: number; folder: boolean } {
  const id = labIdOf(realLabDir(dir));
  const { stdout } = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  const namespaces = stdout.split('\n').filter((line) => line.includes(`seine-${id}-`));
  return { namespaces, processes: markedProcesses(id).length, folder: existsSync(dir) };
}

const nothing = { namespaces: [], processes: 0, folder: false };

afterAll(async () => {
  await node('bin/seine-lab.mjs', 'down');
});

for (const { families, nodes, more } of [
  { families: ['ipv4', 'ipv6'], nodes: 3, more: [] },
  { families: ['ipv6'], nodes: 2, more: ['--tunnel', 'vxlan'] },
]) {
  it(`passes all its checks with ${nodes} nodes and ${families.join(' and ')}, and leaves nothing`, async () => {
    const outcome = await demo('--down', '--nodes', String(nodes), '--families', families.join(','), ...more);
    const report = reportOf(outcome);
    expect(report.checks.map(({ name }) => name)).toEqual(expectedChecks(families, { nodes }));
    expect(report.checks.filter(({ ok }) => !ok)).toEqual([]);
    expect(report.ok).toBe(true);
    expect(outcome.code).toBe(0);
    expect(whatIsLeft()).toEqual(nothing);
  });
}

it('passes all its checks with 1 node, keeps the lab for inspection, replaces it the next time, and is gone after everything was killed and `down`', async () => {
  const first = await demo('--nodes', '1', '--families', 'ipv4');
  expect(reportOf(first).checks.map(({ name }) => name)).toEqual(expectedChecks(['ipv4'], { nodes: 1 }));
  expect(reportOf(first).checks.filter(({ ok }) => !ok)).toEqual([]);
  expect(first.code).toBe(0);
  expect((await node('bin/seine-lab.mjs', 'exec', 'demo/client-1', '--', 'true')).code).toBe(0);
  expect((await demo('--nodes', '1', '--families', 'ipv6')).code).toBe(0);
  for (const { pid } of markedProcesses(labIdOf(realLabDir(dir)))) process.kill(pid, 'SIGKILL');
  expect((await node('bin/seine-lab.mjs', 'down')).code).toBe(0);
  expect(whatIsLeft()).toEqual(nothing);
});

it('reports the failure and its cause when the agents do not start', async () => {
  const outcome = await demo('--down', '--nodes', '1', '--agent', '/no/such/agent.mjs');
  expect(outcome.code).toBe(1);
  expect(reportOf(outcome)).toMatchObject({
    ok: false,
    checks: [{ name: 'lab.ready', ok: false, detail: expect.stringContaining('agent') }],
  });
  expect(whatIsLeft()).toEqual(nothing);
});
