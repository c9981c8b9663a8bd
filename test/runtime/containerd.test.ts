import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runIn } from '../../lab/machine/netns.ts';
import { environmentOf, markedProcesses } from '../../lab/machine/process.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { until } from '../support/converge-lab.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { GrpcError } from './grpc.ts';
import { contentsAtRest, contentsOf } from './node-contents.ts';
import { type RunningPod, RuntimeLab } from './runtime-lab.ts';
import { askName, inUrl, nameIn, serveName } from './tiny-server.ts';

/*
 * containerd as a kubelet uses it, one on each of three nodes.
 */

const signal = AbortSignal.timeout(600_000);
const published = { protocol: 'tcp', containerPort: 80, hostPort: 8080 } as const;

let runtimes: RuntimeLab;

beforeAll(async () => {
  runtimes = await RuntimeLab.start(3, signal);
  await runtimes.startContainerd('usual chain', signal);
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(120_000));
});

async function reaches(from: RunningPod, to: RunningPod): Promise<void> {
  for (const ip of to.ips) expect(nameIn(await runtimes.exec(from, askName(ip), signal))).toBe(to.config.name);
}

/** Owners of ports in the database. Pre-plugged ports are recorded a little later than the runtime's answer. */
const described = async (): Promise<readonly string[]> => (await holdingsOf(runtimes.lab)).ports;

const isGone = async (work: Promise<unknown>) =>
  await work.then(
    () => false,
    (thrown: unknown) => thrown instanceof GrpcError && thrown.code === 'NOT_FOUND',
  );

describe('sandboxes of containerd on three nodes', () => {
  let pods: readonly RunningPod[];

  beforeAll(async () => {
    pods = await Promise.all(
      [1, 2, 3].map((node) => runtimes.startPod(node, { name: `web${node}`, ports: node === 1 ? [published] : [] }, serveName, signal)),
    );
  });
  afterAll(async () => {
    for (const pod of pods) await runtimes.removePod(pod, signal);
  });

  it('are accepted when the network is ready', async () => {
    const { cri } = runtimes.containerd(1);
    expect(await cri.version(signal)).toMatchObject({ name: 'containerd' });
    expect((await cri.conditions(signal)).filter(({ type }) => type.endsWith('Ready'))).toMatchObject([
      { type: 'RuntimeReady', holds: true },
      { type: 'NetworkReady', holds: true },
    ]);
  });

  it('get an address of each family', () => {
    for (const { ips } of pods) expect(ips).toEqual([expect.stringMatching(/^10\.244\./), expect.stringMatching(/^fd00:10:244:/)]);
  });

  it('reach each other and themselves', async () => {
    for (const from of pods) for (const to of pods) await reaches(from, to);
  });

  it('are reached at a published port: from other nodes, other pods, their own node and outside', async () => {
    const [, second] = pods;
    const { external, families } = runtimes.lab.plan;
    for (const [index, ip] of runtimes.lab.node(1).ips.entries()) {
      const url = `http://${inUrl(ip)}:${published.hostPort}/`;
      const ask = ['-s', '-m', '5', url];
      expect(await runtimes.place(2).run('curl', ask, signal), `${families[index]} from another node`).toBe('web1\n');
      expect(await runtimes.place(1).run('curl', ask, signal), `${families[index]} from its own node`).toBe('web1\n');
      expect(await runIn(external.netns, 'curl', ask, {}, signal), `${families[index]} from outside`).toBe('web1\n');
      if (second) expect(nameIn(await runtimes.exec(second, askName(ip, published.hostPort), signal))).toBe('web1');
    }
  });

  it('survive their runtime, and are the same when it is back', async () => {
    const [first, second, third] = pods;
    if (!first || !second || !third) throw new Error('no pods');
    const before = await contentsAtRest(runtimes);
    await runtimes.containerd(1).kill();
    await reaches(second, first);
    await runtimes.containerd(1).start(signal);
    expect(await runtimes.containerd(1).cri.sandboxStatus(first.sandbox, signal)).toEqual({ ready: true, ips: first.ips });
    expect(await contentsOf(runtimes)).toEqual(before);
    await reaches(first, third);
    await runtimes.removePod(await runtimes.startPod(1, { name: 'next' }, serveName, signal), signal);
  });
});

describe('the end of a sandbox', () => {
  it('releases all it had; stopping it or removing it again succeeds', async () => {
    const before = await contentsAtRest(runtimes);
    const pod = await runtimes.startPod(1, { name: 'brief' }, serveName, signal);
    await expect.poll(described).toEqual([pod.sandbox]);
    const { cri } = runtimes.containerd(1);
    await cri.stopSandbox(pod.sandbox, signal);
    await cri.stopSandbox(pod.sandbox, signal);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
    await cri.removeSandbox(pod.sandbox, signal);
    await cri.removeSandbox(pod.sandbox, signal);
    expect(await isGone(cri.sandboxStatus(pod.sandbox, signal))).toBe(true);
  });

  it('succeeds immediately if the API server has no such pod, with nothing left', async () => {
    const before = await contentsAtRest(runtimes);
    const { cri } = runtimes.containerd(1);
    const config = { ...runtimes.sandboxConfig({ name: 'unknown' }), uid: '6d1b0dd6-8d4f-4cf1-a6ea-5a7f3f9d9c11' };
    await expect(cri.runSandbox(config, signal)).rejects.toThrow(/default\/unknown/);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });

  it('is executed by the agent when it comes back, if it was away', async () => {
    const before = await contentsAtRest(runtimes);
    const pod = await runtimes.startPod(1, { name: 'while-away' }, serveName, signal);
    runtimes.writeNetwork(1, runtimes.chain(1, { deadline: 1 }));
    await runtimes.lab.agent(1, 'kill');
    await runtimes.removePod(pod, signal);
    runtimes.writeNetwork(1, runtimes.chain(1));
    await runtimes.lab.agent(1, 'start');
    await runtimes.lab.untilReady(1);
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });
});

describe('a sandbox that its runtime has forgotten', () => {
  it('is collected when a runtime reports its remaining ones', async () => {
    // libcni's cache of the lost one stays with the runtime.
    const contents = async () => ({ ...(await contentsOf(runtimes)), results: [] });
    const before = await contents();
    const containerd = runtimes.containerd(1);
    const kept = await runtimes.startPod(1, { name: 'kept' }, serveName, signal);
    const lost = await runtimes.startPod(1, { name: 'lost' }, serveName, signal);
    await containerd.forget([lost.container, lost.sandbox], signal);
    expect(await containerd.cri.sandboxes(signal)).toEqual([kept.sandbox]);
    await expect.poll(described).toContain(lost.sandbox);
    await runtimes.collectGarbage(1, [kept.sandbox], signal);
    await expect.poll(described).toEqual([kept.sandbox]);
    await runtimes.removePod(kept, signal);
    await expect.poll(contents).toEqual(before);
  });
});

describe('a runtime that dies while it creates sandboxes', () => {
  it('removes them when it is back, though the plugins have continued without it', async () => {
    const names = ['half-1', 'half-2', 'half-3'];
    const before = await contentsAtRest(runtimes);
    const containerd = runtimes.containerd(1);
    const plugins = () => markedProcesses(runtimes.lab.plan.id).filter(({ pid }) => environmentOf(pid).includes('CNI_IFNAME=eth0'));
    await runtimes.lab.agent(1, 'kill');
    const calls = names.map((name) => containerd.cri.runSandbox(runtimes.sandboxConfig({ name }), signal));
    const outcomes = Promise.allSettled(calls);
    await until(
      () => plugins().length === names.length,
      30_000,
      () => 'the plugins are not called',
    );
    await containerd.kill();
    expect((await outcomes).map(({ status }) => status)).toEqual(names.map(() => 'rejected'));
    await runtimes.lab.agent(1, 'start');
    await containerd.start(signal);
    await runtimes.lab.untilReady(1);
    await until(
      () => plugins().length === 0,
      60_000,
      () => 'the plugins do not end',
    );
    const known = await containerd.cri.sandboxes(signal);
    // A plugin without its complete configuration does nothing.
    expect(known).toEqual(expect.arrayContaining([...(await described())]));
    for (const id of known) {
      await containerd.cri.stopSandbox(id, signal);
      await containerd.cri.removeSandbox(id, signal);
    }
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
  });
});

describe('ctr run --cni', () => {
  const tiny = (name: string, ...command: readonly string[]) => ['run', '--rm', '--cni', 'localhost/seine/tiny:1', name, ...command];

  beforeAll(async () => {
    for (const node of [1, 2]) await runtimes.containerd(node).import('default', signal);
  });

  it('attaches a container, which reaches a sandbox on another node, and leaves nothing', async () => {
    const target = await runtimes.startPod(2, { name: 'target' }, serveName, signal);
    const before = await contentsAtRest(runtimes);
    for (const ip of target.ips)
      expect(nameIn(await runtimes.containerd(1).ctr(tiny(`asks-${target.ips.indexOf(ip)}`, ...askName(ip)), signal))).toBe('target');
    await expect.poll(() => contentsOf(runtimes)).toEqual(before);
    await runtimes.removePod(target, signal);
  });

  it('reports the error if the agent rejects', async () => {
    runtimes.writeNetwork(1, [runtimes.seine(1, { mtu: 9000 })]);
    await expect(runtimes.containerd(1).ctr(tiny('refused', 'true'), signal)).rejects.toThrow(/mtu/);
    runtimes.writeNetwork(1, runtimes.chain(1));
    expect(nodePaths(runtimes.lab.plan.dir, 'node-1').cniSocket).toBe(runtimes.seine(1)['agentSocket']);
  });
});
