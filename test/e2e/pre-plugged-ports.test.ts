import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { inNetns } from '../../lab/machine/netns.ts';
import { runAnyway } from '../../lab/machine/process.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { Traffic } from '../reliability/traffic.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { CrashRuntime, type LiveContainer } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { powerOff, startAgentAfterReboot } from '../support/reboot.ts';

const never = new AbortController().signal;
const patience = { timeout: 20_000, interval: 50 };
/** Number of used ones of the eight that are kept free on a node with few pods: more are created once half are in use. */
const free = 5;

/** A node whose pods are changed to pre-plugged ports, and back. The plugin creates their namespace, as on a real node. */
describe('a node with pre-plugged ports', () => {
  let lab: ConvergeLab;
  let runtime: CrashRuntime;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1, undefined, { podInterface: 'veth' });
    runtime = await CrashRuntime.start(lab, 8, never);
  });
  afterAll(async () => {
    await runtime?.close();
    await lab?.remove();
  });

  const add = async (): Promise<LiveContainer> => {
    await runtime.add();
    const added = [...runtime.live.values()].at(-1);
    if (!added) throw new Error(runtime.faults.join());
    return added;
  };
  /** The nodes' ends of all live interfaces, and which of them are pre-plugged ports. */
  const ends = async (): Promise<readonly string[]> => await Promise.all([...runtime.live.keys()].map((id) => lab.nodeEnd(1, `pod-${id}`)));
  const kinds = async () => (await ends()).map((name) => (name.startsWith('sp-') ? 'standing' : 'veth'));
  const pairs = async () => (await lab.exec(1, 'ip', '-br', 'link', 'show', 'type', 'veth')).match(/^sp-\d+/gm) ?? [];
  const portsOnBridge = async () => (await lab.exec(1, 'ovs-vsctl', 'list-ports', 'br-int')).match(/^sp-\d+/gm) ?? [];
  const untilFree = (count: number) =>
    expect.poll(async () => (await lab.metrics(1)).get('standing_ports{state="free"}'), patience).toBeGreaterThanOrEqual(count);

  /** Replaces the agent by one with another kind of pod interface, as a roll-out does. */
  async function becomes(podInterface: 'standing' | 'auto' | 'veth'): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(1).name);
    const config = parse(readFileSync(agentConfig, 'utf8')) as Readonly<Record<string, unknown>>;
    writeFileSync(agentConfig, stringify({ ...config, podInterface }));
    await lab.agent(1, 'stop');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
  }

  async function nothingLeaks(): Promise<void> {
    const live = [...runtime.live.keys()].toSorted();
    await expect
      .poll(async () => ({ ...(await holdingsOf(lab)), quarantined: 'any' }), patience)
      .toEqual({ interfaces: live.length, ports: live, flows: live.length, leases: live, quarantined: 'any' });
    await runtime.checkAll();
    expect(runtime.faults).toEqual([]);
  }

  it('changes from veth pairs to pre-plugged ports and back under traffic: pods keep their interfaces', { timeout: 120_000 }, async () => {
    const [client, server] = [await add(), await add()];
    expect(await kinds()).toEqual(['veth', 'veth']);
    const routes = [{ name: 'pairs', from: client, addresses: server.ips, service: false }];
    const first = await Traffic.start([server], routes, 50);
    await becomes('standing');
    await add();
    // The plugin creates the namespace after the answer to the first pod.
    expect(await kinds()).toEqual(['veth', 'veth', 'veth']);
    await untilFree(free);
    const [near, far] = [await add(), await add()];
    expect(await kinds()).toEqual(['veth', 'veth', 'veth', 'standing', 'standing']);
    const second = await Traffic.start([far], [{ name: 'ports', from: near, addresses: far.ips, service: false }], 50);
    const before = await ends();
    for (const kind of ['auto', 'veth', 'standing', 'veth'] as const) await becomes(kind);
    expect(await ends()).toEqual(before);
    await nothingLeaks();
    const nowMs = performance.now();
    await expect.poll(() => [...first.silentSince(nowMs), ...second.silentSince(nowMs)], patience).toEqual([]);
    for (const [name, traffic] of Object.entries({ first, second })) {
      const { broken, streams } = await traffic.stop();
      const sum = (of: 'sent' | 'lost') => streams.reduce((all, stream) => all + stream[of], 0);
      console.log(`${name}: lost ${sum('lost')} of ${sum('sent')}, broken ${broken}`);
      expect(broken).toBe(0);
    }
    // Free ports are not desired any more, nor is one that a pod releases.
    const used = before.filter((name) => name.startsWith('sp-')).toSorted();
    await expect.poll(async () => [(await pairs()).toSorted(), (await portsOnBridge()).toSorted()], patience).toEqual([used, used]);
    await add();
    expect((await kinds()).at(-1)).toBe('veth');
    await runtime.remove(near.containerId);
    await runtime.remove(far.containerId);
    await expect.poll(async () => [await pairs(), await portsOnBridge()], patience).toEqual([[], []]);
    await nothingLeaks();
  });

  it('has a virtual machine, whose launcher puts the pod’s interface into a bridge, and a macvlan above it is rejected', async () => {
    await becomes('standing');
    await add();
    await untilFree(free);
    const [pod, peer] = [await add(), await add()];
    expect((await kinds()).slice(-2)).toEqual(['standing', 'standing']);
    const inPod = async (...words: readonly string[]) => await lab.exec(1, 'ip', '-n', pod.netns, ...words);
    const macvlan = ['link', 'add', 'link', 'eth0', 'name', 'mv0', 'type', 'macvlan', 'mode', 'bridge'];
    await expect(inPod(...macvlan)).rejects.toThrow('Invalid argument');
    const [, mac = ''] = /ether (\S+)/.exec(await inPod('link', 'show', 'eth0')) ?? [];
    const [, gateway = ''] = /via (\S+)/.exec(await inPod('route', 'show', 'default')) ?? [];
    const [, address = ''] = /inet (\S+)/.exec(await inPod('-4', 'address', 'show', 'eth0')) ?? [];
    const guest = `${pod.netns}-vm`;
    await lab.exec(1, 'ip', 'netns', 'add', guest);
    try {
      // Like KubeVirt's virt-launcher, which binds by a bridge: the guest has MAC and address of the pod, whose interface has neither.
      await inPod('link', 'set', 'eth0', 'down');
      await inPod('address', 'flush', 'dev', 'eth0');
      await inPod('link', 'set', 'eth0', 'name', 'eth0-nic', 'address', '0e:00:00:00:77:01');
      await inPod('link', 'add', 'k6t-eth0', 'type', 'bridge');
      await inPod('link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'eth0', 'address', mac, 'netns', guest);
      for (const name of ['eth0-nic', 'tap0']) await inPod('link', 'set', name, 'master', 'k6t-eth0', 'up');
      await inPod('link', 'set', 'k6t-eth0', 'up');
      const inGuest = async (...words: readonly string[]) => await lab.exec(1, 'ip', '-n', guest, ...words);
      await lab.exec(1, 'ip', 'netns', 'exec', guest, 'ethtool', '-K', 'eth0', 'tx', 'off'); // a guest has no kernel in common with OVS
      await inGuest('address', 'add', address, 'dev', 'eth0');
      await inGuest('link', 'set', 'eth0', 'up');
      await inGuest('route', 'add', 'default', 'via', gateway);
      const traffic = await Traffic.start(
        [peer],
        [{ name: 'guest', from: { netns: guest }, addresses: peer.ips.slice(0, 1), service: false }],
        20,
      );
      await lab.agent(1, 'stop');
      await lab.agent(1, 'start');
      await lab.untilReady(1);
      const nowMs = performance.now();
      await expect.poll(() => traffic.silentSince(nowMs), patience).toEqual([]);
      expect((await traffic.stop()).broken).toBe(0);
    } finally {
      await lab.exec(1, 'ip', 'netns', 'del', guest);
      for (const id of runtime.live.keys()) await runtime.remove(id);
    }
    await nothingLeaks();
  });

  it('is cleaned up completely, and its live pods are named', async () => {
    await becomes('standing');
    await add();
    await untilFree(free);
    const [gone, living] = [await add(), await add()];
    await lab.agent(1, 'stop');
    await runtime.lose(gone.containerId);
    const { netns } = lab.node(1);
    const { dir, run: runDir, stateDir, cniBinFolder, cniConfFolder } = nodePaths(lab.plan.dir, lab.node(1).name);
    const folders = ['--run-dir', runDir, '--ovs-run-dir', dir, '--state-dir', stateDir];
    const cni = ['--cni-bin-dir', cniBinFolder, '--cni-conf-dir', cniConfFolder];
    const inside = inNetns(netns, process.execPath, ['src/seinectl/main.ts', 'node', 'cleanup', ...folders, ...cni]);
    const messages = async () => (await runAnyway(inside.command, inside.args, {}, AbortSignal.timeout(20_000))).stderr;
    await expect.poll(messages, patience).toContain('attached pods lose their network (2): ');
    expect(await messages()).toContain(`crash/pod-${living.containerId}`);
    expect(await messages()).not.toContain(gone.containerId);
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await runtime.collectGarbage();
    await nothingLeaks();
    for (const id of runtime.live.keys()) await runtime.remove(id);
  });

  it('is restarted: its ports are deleted with their namespace, the first pod has a pair, and the next ones ports', {
    timeout: 120_000,
  }, async () => {
    await becomes('standing');
    await add();
    await untilFree(free);
    for (let count = 0; count < 2; count++) await add();
    expect((await kinds()).slice(-2)).toEqual(['standing', 'standing']);
    const lost = [...runtime.live.keys()];
    await powerOff(lab, runtime);
    // The kernel deletes a namespace's links asynchronously.
    await expect.poll(pairs, patience).toEqual([]);
    await lab.startOvs(1);
    startAgentAfterReboot(lab);
    await lab.untilReady(1);
    for (const id of lost.slice(0, 2)) await runtime.remove(id);
    for (const id of lost.slice(2)) await runtime.lose(id);
    const fresh = await add();
    expect(await kinds()).toEqual(['veth']);
    await runtime.collectGarbage();
    await untilFree(free);
    const next = await add();
    expect(await kinds()).toEqual(['veth', 'standing']);
    const traffic = await Traffic.start([next], [{ name: 'both', from: fresh, addresses: next.ips, service: false }], 20);
    await traffic.stop();
    await nothingLeaks();
    // No row of the earlier boot remains whose interface ovs-vswitchd would report as missing.
    expect((await portsOnBridge()).toSorted()).toEqual((await pairs()).toSorted());
  });
});
