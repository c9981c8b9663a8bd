import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type NodePaths, nodePaths } from '../../lab/plan/names.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { install } from '../../src/install/install.ts';
import { decodeJournal } from '../../src/pods/ipam/journal-records.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';

/** `seinectl status` names each fault, and prints "No problems." again after it is removed. */
const root = join(import.meta.dirname, '..', '..');
let lab: ConvergeLab;
/** A runtime of containers that the API server does not know. */
let runtime: CrashRuntime;
let paths: NodePaths;

async function seinectl(...args: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const line = (text: string): void => void lines.push(text);
  const terminal = { room: { width: Number.POSITIVE_INFINITY, paint: plain }, line, remark: line };
  await run(['--socket', paths.apiSocket, ...args], terminal, Readable.from([]));
  return lines.join('\n');
}

const status = async (): Promise<AgentStatus> => JSON.parse(await seinectl('status', '-o', 'json')) as AgentStatus;
const look = async (name: string) => (await status()).healthChecks?.find((each) => each.name === name);

async function untilReported(kind: string, about: string, withinMs: number): Promise<void> {
  let reported: AgentStatus['problems'];
  await until(
    async () => {
      reported = (await status()).problems;
      return reported?.some((problem) => problem.kind === kind && problem.about === about) === true;
    },
    withinMs,
    () => `${kind} ${about} is not among ${JSON.stringify(reported)}`,
  );
}

/** Waits until no problem of this kind is reported any more. */
async function untilNoneReported(kind: string, withinMs: number): Promise<void> {
  await until(
    async () => (await status()).problems?.every((problem) => problem.kind !== kind) === true,
    withinMs,
    () => `a problem of ${kind} is still said`,
  );
}

async function untilWell(withinMs: number): Promise<void> {
  let last = '';
  await until(
    async () => {
      const { verdict, problems, healthChecks } = await status();
      last = JSON.stringify({ verdict, problems, healthChecks });
      // A check that becomes due between the two is overdue for a moment, as it waits for OVS.
      return verdict === 'no problems' && (await seinectl('status')).includes('No problems.');
    },
    withinMs,
    () => `not well: ${last}`,
  );
}

beforeAll(async () => {
  lab = await ConvergeLab.start(1);
  paths = nodePaths(lab.plan.dir, lab.node(1).name);
  await lab.startPods();
  const source = join(lab.plan.dir, 'source');
  const conflist = join(lab.plan.dir, 'conflist');
  mkdirSync(source);
  copyFileSync(join(root, 'dist', 'bin', 'seine'), join(source, 'seine'));
  const answer = JSON.stringify({ cniVersion: '1.0.0', supportedVersions: ['0.4.0', '1.0.0', '1.1.0'] });
  writeFileSync(join(source, 'loopback'), `#!/bin/sh\necho '${answer}'\n`, { mode: 0o755 });
  writeFileSync(
    conflist,
    JSON.stringify({ name: 'seine', cniVersion: '1.0.0', plugins: [{ type: 'seine', agentSocket: paths.cniSocket }] }),
  );
  const folders = { bin: paths.cniBinFolder, conf: paths.cniConfFolder, state: paths.stateDir };
  install({ ...folders, source, conflist }, () => undefined);
  runtime = await CrashRuntime.start(lab, 2, new AbortController().signal);
});
afterAll(async () => {
  await runtime?.close();
  await lab?.remove();
});

it('reports "No problems." once every check has run, with the age of each', async () => {
  await untilWell(30_000);
  const { healthChecks = [], parts } = await status();
  expect(healthChecks.map(({ name }) => name)).toEqual(expect.arrayContaining([...parts.map(({ part }) => part), 'cni', 'journal']));
  for (const { ageSeconds, roundSeconds } of healthChecks) expect(ageSeconds).toBeLessThanOrEqual(roundSeconds);
  const metrics = await lab.metrics(1);
  expect(metrics.get('health_check_age_seconds{check="bridge"}')).toBeLessThan(
    metrics.get('health_check_deadline_seconds{check="bridge"}') ?? 0,
  );
  expect(metrics.get('problems{kind="cni"}')).toBe(0);
});

it('names a paused repair', async () => {
  await seinectl('pause', '--for', '10m');
  await untilReported('agent.repair', 'pause', 5_000);
  await seinectl('resume');
  await untilWell(10_000);
});

/** Each of these checks has its own period, which the test has to wait for: so it waits for all together. */
describe.concurrent('checks that run every ten seconds or more', { timeout: 180_000 }, () => {
  beforeAll(async () => {
    for (let count = 0; count < runtime.size; count++) await runtime.add();
  });

  it('foreign CNI files are reported, and changed ones restored; additions of a service mesh are kept', async () => {
    const other = join(paths.cniConfFolder, '05-other.conflist');
    writeFileSync(other, '{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}');
    await untilReported('cni', other, 20_000);
    expect((await lab.metrics(1)).get('problems{kind="cni"}')).toBe(1);
    rmSync(other);
    await untilNoneReported('cni', 20_000);

    const repairs = (await look('cni'))?.repaired ?? 0;
    const list = JSON.parse(readFileSync(paths.cniConf, 'utf8')) as { plugins: unknown[] };
    writeFileSync(paths.cniConf, JSON.stringify({ ...list, plugins: [{ type: 'seine' }, { type: 'istio-cni' }] }));
    writeFileSync(join(paths.cniBinFolder, 'seine'), 'cut off');
    await until(
      async () => ((await look('cni'))?.repaired ?? 0) === repairs + 2,
      30_000,
      () => 'the files are not put back',
    );
    expect(JSON.parse(readFileSync(paths.cniConf, 'utf8'))).toMatchObject({
      plugins: [{ type: 'seine', agentSocket: paths.cniSocket }, { type: 'istio-cni' }],
    });
    expect(readFileSync(join(paths.cniBinFolder, 'seine'))).toEqual(readFileSync(join(root, 'dist', 'bin', 'seine')));
    await untilNoneReported('cni', 20_000);
    expect((await status()).cni).toEqual({ chain: ['seine', 'istio-cni'], added: ['istio-cni'] });
  });

  it('a journal that does not contain the present leases is rewritten', async () => {
    const journal = join(paths.stateDir, 'ipam.journal');
    const leases = () => decodeJournal(readFileSync(journal, 'utf8')).records.filter(({ op }) => op === 'lease').length;
    // Some of them are released meanwhile.
    const before = leases() - runtime.size;
    expect(before).toBeGreaterThan(0);
    for (const damage of [() => truncateSync(journal), () => appendFileSync(journal, 'nonsense\nmore\n'), () => rmSync(journal)]) {
      damage();
      await until(
        () => {
          try {
            const { damaged, torn } = decodeJournal(readFileSync(journal, 'utf8'));
            return damaged === 0 && !torn && leases() >= before;
          } catch {
            return false;
          }
        },
        40_000,
        () => 'the journal is not written again',
      );
    }
  });

  it('a pod without a DEL releases its addresses once nothing of it is left, and a live one keeps them', async () => {
    const [lost = '', living = ''] = [...runtime.live.keys()];
    await runtime.lose(lost);
    await until(
      async () => (await lab.metrics(1)).get('orphaned_pods_released_total') === 1,
      60_000,
      () => 'the lease stays',
    );
    // A journal that was just modified is incomplete.
    const isGivenUp = async (): Promise<boolean> => {
      const { leases } = await holdingsOf(lab);
      return leases.includes(living) && !leases.includes(lost);
    };
    await until(isGivenUp, 40_000, () => 'the journal has the lease of the one that is lost, or not that of the one that lives');
    const kept = `pod crash/pod-${living} does not exist in the API server and keeps its addresses`;
    await until(
      async () => (await seinectl('status')).includes(kept),
      60_000,
      () => 'status does not name the pod',
    );
    await runtime.remove(living);
    await until(
      async () => !(await seinectl('status')).includes('keeps its addresses'),
      20_000,
      () => 'status goes on naming a pod that is gone',
    );
  });
});

it('reports "No problems." once all of that is over', { timeout: 90_000 }, () => untilWell(60_000));

it('restores CNI files that were changed while no agent ran', async () => {
  const plugin = join(paths.cniBinFolder, 'seine');
  await lab.agent(1, 'kill');
  rmSync(paths.cniConf);
  writeFileSync(plugin, 'cut off');
  await lab.agent(1, 'start');
  await until(
    () => existsSync(paths.cniConf) && readFileSync(plugin).equals(readFileSync(join(root, 'dist', 'bin', 'seine'))),
    60_000,
    () => 'the files are not put back',
  );
  await untilWell(60_000);
});

it('does not report health while OVS does not answer, nor once it is another', async () => {
  const [vswitchd] = await lab.switchPids();
  process.kill(vswitchd ?? 0, 'SIGSTOP');
  try {
    await until(
      async () => (await status()).verdict !== 'no problems',
      30_000,
      () => 'all is well',
    );
    expect(await seinectl('status')).not.toContain('No problems.');
  } finally {
    process.kill(vswitchd ?? 0, 'SIGCONT');
  }
  await untilWell(60_000);
  await lab.killOvs(1, 'ovs-vswitchd');
  await untilReported('connection', 'openflow', 10_000);
  await lab.startOvs(1);
  await untilWell(60_000);
});
