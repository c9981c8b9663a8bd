import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { slowness } from '../support/test-datapath.ts';

/** After the death of any part of Open vSwitch, everything recovers without intervention: decision 6. */
describe('a crash of Open vSwitch', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await lab.startPods();
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
  });
  afterAll(async () => {
    await lab?.remove();
  });

  /** State that must be the same before and after. */
  async function state() {
    const [flows, groups, ofPorts] = await Promise.all([lab.flows(1), lab.groups(1), lab.ofPorts(1)]);
    const [addresses, routes, neighbours, sysctls] = await Promise.all([
      lab.exec(1, 'ip', '-o', 'address', 'show', 'dev', 'antrea-gw0', 'scope', 'global'),
      Promise.all(['-4', '-6'].map((family) => lab.exec(1, 'ip', family, 'route', 'show', 'dev', 'antrea-gw0'))),
      lab.exec(1, 'ip', 'neighbour', 'show', 'dev', 'antrea-gw0', 'nud', 'permanent'),
      lab.exec(1, 'sysctl', '-a', '-r', 'antrea-gw0.(rp_filter|send_redirects|accept_ra)$'),
    ]);
    return {
      flows: flows.map(({ text }) => text),
      groups,
      ofPorts,
      addresses: addresses.replaceAll(/^\d+:/gm, ''),
      routes: routes.map((text) =>
        text
          .split('\n')
          .filter((line) => !line.startsWith('fe80'))
          .toSorted(),
      ),
      neighbours: neighbours.split('\n').toSorted(),
      sysctls,
    };
  }

  const crashes: readonly { readonly name: string; readonly crash: () => Promise<void> }[] = [
    { name: 'of ovs-vswitchd', crash: () => lab.killOvs(1, 'ovs-vswitchd') },
    { name: 'of ovsdb-server', crash: () => lab.killOvs(1, 'ovsdb-server') },
    { name: 'of both', crash: () => lab.killOvs(1, 'all') },
    {
      name: 'of both and of the agent',
      crash: async () => {
        await lab.agent(1, 'kill');
        await lab.killOvs(1, 'all');
      },
    },
    {
      name: 'of ovs-vswitchd while no agent runs',
      crash: async () => {
        await lab.agent(1, 'stop');
        await lab.killOvs(1, 'ovs-vswitchd');
      },
    },
  ];

  for (const { name, crash } of crashes) {
    it(`${name} leaves everything as it was once it runs again`, async () => {
      const before = await state();
      await crash();
      const startedMs = performance.now();
      await lab.startOvs(1);
      await lab.agent(1, 'start');
      await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
      const reachedMs = Math.round(performance.now() - startedMs);
      await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
      await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'));
      await lab.untilReady(1);
      console.log(
        `crash ${name}: pods reach each other after ${reachedMs} ms, ready after ${Math.round(performance.now() - startedMs)} ms`,
      );
      await expect.poll(state, { timeout: 5_000 * slowness, interval: 200 }).toEqual(before);
    });
  }

  it('and the loss of the IPAM journal leaves every pod its addresses, and gives them to no other', async () => {
    const before = await state();
    await lab.agent(1, 'kill');
    rmSync(join(nodePaths(lab.plan.dir, lab.node(1).name).stateDir, 'ipam.journal'));
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    expect(lab.log(1).findLast(({ msg }) => msg === 'pods of this node')).toMatchObject({
      adopted: 2,
      recovered: 2,
      released: 0,
      removedLinks: 0,
    });
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-1'));
    await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'));
    await expect.poll(state, { timeout: 5_000 * slowness, interval: 200 }).toEqual(before);
    const runtime = await CrashRuntime.start(lab, 3, AbortSignal.timeout(10_000 * slowness));
    for (let each = 0; each < 3; each++) await runtime.add();
    const taken = new Set(['client-1', 'web-1'].flatMap((name) => lab.pod(name).ips));
    expect([...runtime.live.values()].flatMap(({ ips }) => ips).filter((ip) => taken.has(ip))).toEqual([]);
    for (const id of [...runtime.live.keys()]) await runtime.remove(id);
    expect(runtime.faults).toEqual([]);
  });

  it('and the loss of its database leaves every pod reachable', async () => {
    await lab.agent(1, 'stop');
    await lab.killOvs(1, 'all');
    rmSync(join(nodePaths(lab.plan.dir, lab.node(1).name).ovs, 'conf.db'));
    await lab.startOvs(1);
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    for (const [from, to] of [
      ['client-1', 'web-1'],
      ['client-1', 'web-2'],
      ['client-2', 'web-1'],
    ] as const)
      await lab.untilReached(lab.pod(from), lab.pod(to));
  });
});
