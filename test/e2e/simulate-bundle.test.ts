import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { demoNamespace } from '../../lab/demo/workload.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { TraceOutcome } from '../../src/api/trace.ts';
import type { WholeTrace } from '../../src/operations/path/whole-trace.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { addPods, denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { recordingTerminal } from '../support/recording-terminal.ts';
import { runProgram } from '../support/run-program.ts';
import { traceInLab } from '../support/traced-lab.ts';

const root = join(import.meta.dirname, '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'seine-simulate-bundle-'));
const client = `${demoNamespace}/client-1`;
let lab: ConvergeLab;
let bundles: readonly string[];

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods([namespaceManifest('guarded'), networkPolicy('guarded', 'deny-all', denyAll)]);
  await addPods(lab, 'guarded', ['db']);
});
beforeAll(async () => {
  bundles = [await collected(1), await collected(2)];
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await lab?.remove();
});

/** Runs `seinectl collect` on a node. */
async function collected(number: number): Promise<string> {
  const { name, netns } = lab.node(number);
  const path = join(folder, `${name}.tar.gz`);
  const socket = nodePaths(lab.plan.dir, name).apiSocket;
  const inside = inNetns(netns, process.execPath, [join(root, 'bin', 'seinectl.mjs'), '--socket', socket, 'collect', '-o', path]);
  expect(await runProgram(inside.command, inside.args, { cwd: folder })).toMatchObject({ code: 0 });
  return path;
}

async function simulate(paths: readonly string[], ...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['simulate', ...paths.flatMap((path) => ['--bundle', path]), ...args], terminal, Readable.from([]));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

function tracesIn(text: string): readonly WholeTrace[] {
  return (JSON.parse(text) as { readonly traces: readonly WholeTrace[] }).traces;
}

/** Parts of a trace that do not depend on the time: no counters, no durations. */
function comparable({ family, packet, paths }: WholeTrace): unknown {
  const outcome = ({ what, to, packet: left, drop }: TraceOutcome) => ({ what, to, left, drop: drop?.name });
  return {
    ...{ family, packet },
    paths: paths.map(({ verdict, endpoints, segments }) => ({
      ...{ verdict, endpoints },
      segments: segments.map(({ node, hops, bridge, desired }) => ({ node, hops, bridge: outcome(bridge), desired: outcome(desired) })),
    })),
  };
}

const questions = [
  ['a pod of the other node', `${demoNamespace}/client-2`, 0],
  ['a Service', `service:${demoNamespace}/web`, 0],
  ['a guarded pod', 'guarded/db', 1],
  ['the outside', 'outside', 0],
] as const;

it.each(questions)('a trace to %s is that of the agents, with equal flows and the meaning of the objects', async (_, to, exitCode) => {
  const live = await traceInLab(lab, 1, { from: client, to, port: '80' });
  const { code, out, err } = await simulate(bundles, 'trace', client, to, '80', '-o', 'json');
  expect(tracesIn(out).map(comparable)).toEqual(live.traces.map(comparable));
  expect([code, live.exitCode, tracesIn(out).length]).toEqual([exitCode, exitCode, 2]);
  for (const node of ['node-1', 'node-2']) expect(err).toMatch(new RegExp(`the bridge of ${node} had the \\d+ entries of its inputs`));
  const { meanings } = JSON.parse(out).traces[0] as { readonly meanings: readonly { readonly verdict: string }[] };
  expect(meanings.map(({ verdict }) => verdict)).toEqual(meanings.map(() => (exitCode === 0 ? 'allowed' : 'denied')));
});

it('a node without a bundle is compiled from the objects, with the same verdict', async () => {
  const { code, out, err } = await simulate(bundles.slice(0, 1), 'trace', client, `${demoNamespace}/client-2`, '80');
  expect([code, out]).toEqual([0, expect.stringContaining('Delivered to pod')]);
  expect(err).toContain('the flows of node-2 are compiled from the objects: there is no bundle of this node');
});

it('matrix, whatif and test are about the objects of the cluster', async () => {
  const matrix = await simulate(bundles, 'matrix', '--to', 'guarded/db', '--from', client, '-o', 'csv');
  expect([matrix.code, matrix.out]).toEqual([0, expect.stringContaining('deny,guarded/deny-all')]);
  const removed = await simulate(bundles, 'whatif', '--delete', `service/${demoNamespace}/web`);
  expect([removed.code, removed.out]).toEqual([1, expect.stringMatching(new RegExp(`BREAKS .*service ${demoNamespace}/web`))]);
  const file = join(folder, 'tests.yaml');
  writeFileSync(file, `tests: seine.dev/v1\ncases: [{from: ${client}, to: 'service:${demoNamespace}/web', port: 80/TCP, expect: allow}]\n`);
  expect(await simulate(bundles, 'test', file)).toMatchObject({ code: 0, out: expect.stringContaining('1 of 1 case as expected') });
});
