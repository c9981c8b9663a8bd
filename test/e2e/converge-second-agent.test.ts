import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentProgram } from '../../lab/machine/installation.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { agentReadiness } from '../../lab/node/agent.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

const lockName = 'seine_br_int';

/** One agent per bridge: decision 2. */
describe('a second agent on one bridge', () => {
  let lab: ConvergeLab;
  let second: ChildProcess | undefined;
  let apiSocket: string;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1);
    await lab.startPods();
  });
  afterAll(async () => {
    second?.kill('SIGKILL');
    await lab?.remove();
  });

  const flows = async () => (await lab.flows(1)).map(({ text }) => text);
  const deleteFlows = () => lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int');
  const secondReadiness = () => agentReadiness(apiSocket);

  /** Configuration of the first agent except for its sockets. */
  function startSecond(): ChildProcess {
    const node = lab.node(1);
    const paths = nodePaths(lab.plan.dir, node.name);
    apiSocket = join(paths.run, 'second.sock');
    const config = join(paths.dir, 'second.yaml');
    writeFileSync(config, readFileSync(paths.agentConfig, 'utf8').replace(paths.apiSocket, apiSocket));
    const { command, args } = inNetns(node.netns, process.execPath, [agentProgram(), '--config', config]);
    const log = openSync(join(paths.dir, 'second.log'), 'a', 0o600);
    const env = { ...process.env, SEINE_LAB: lab.plan.id };
    const child = spawn(command, args, { stdio: ['ignore', log, log], env });
    closeSync(log);
    return child;
  }

  it('waits and reports why, and changes nothing', async () => {
    const before = await lab.flows(1);
    const startedMs = performance.now();
    second = startSecond();
    await expect
      .poll(async () => (await secondReadiness()).says, { timeout: 20_000 })
      .toContain('bridge lock is held by another agent: br-int');
    await sleep(1_000);
    // Taken before the dump: its duration makes no flow younger.
    const passedMs = performance.now() - startedMs;
    const after = await lab.flows(1);
    expect(after.map(({ text }) => text)).toEqual(before.map(({ text }) => text));
    expect(after.filter(({ ageMs }) => ageMs < passedMs)).toEqual([]);
    expect((await lab.readiness(1)).ready).toBe(true);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
  });

  it('takes over when the first dies, and loses nothing', async () => {
    const before = await flows();
    const killedMs = performance.now();
    await lab.agent(1, 'kill');
    await until(
      async () => (await secondReadiness()).ready,
      20_000,
      () => 'the second agent does not take over',
    );
    console.log(`taken over after ${Math.round(performance.now() - killedMs)} ms`);
    expect(await flows()).toEqual(before);
    await deleteFlows();
    await until(
      async () => JSON.stringify(await flows()) === JSON.stringify(before),
      5_000,
      () => 'flows are not repaired',
    );
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
  });

  it('loses the bridge to a thief, leaves it alone, and has it back', async () => {
    const before = await flows();
    const { dir } = nodePaths(lab.plan.dir, lab.node(1).name);
    const thief = spawn('ovsdb-client', ['steal', `unix:${dir}/db.sock`, lockName], { stdio: 'ignore' });
    try {
      await expect
        .poll(async () => (await secondReadiness()).says, { timeout: 10_000 })
        .toContain('bridge lock is held by another agent: br-int');
      await deleteFlows();
      await sleep(1_000);
      expect(await flows()).toEqual([]);
    } finally {
      thief.kill('SIGKILL');
    }
    await until(
      async () => (await secondReadiness()).ready,
      10_000,
      () => 'the bridge is not the first agent’s again',
    );
    await until(
      async () => JSON.stringify(await flows()) === JSON.stringify(before),
      5_000,
      () => 'flows are not repaired',
    );
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
  });

  it('hands over to the next one', async () => {
    await lab.agent(1, 'start');
    await expect
      .poll(async () => (await lab.readiness(1)).says, { timeout: 20_000 })
      .toContain('bridge lock is held by another agent: br-int');
    const ended = second && once(second, 'exit');
    second?.kill('SIGTERM');
    await ended;
    await lab.untilReady(1);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
  });
});
