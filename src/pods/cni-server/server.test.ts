import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CniBench, codeOf, type PluginRun, replyOn } from '../../../test/support/cni-bench.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Waits for a condition, long enough for a busy host. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

let bench: CniBench;
beforeEach(async () => {
  bench = await new CniBench().start();
});
afterEach(() => bench.remove());

const closeGate = () => bench.closeGate();
const rawCall = (...call: Parameters<CniBench['rawCall']>) => bench.rawCall(...call);

describe('ADD', () => {
  it('attaches, and answers with both ends, addresses and routes of both families', async () => {
    const run = await bench.call('ADD', 'a');
    expect(JSON.parse(run.stdout)).toEqual({
      cniVersion: '1.1.0',
      interfaces: [
        { name: 'veth1', mac: '02:00:00:00:00:01', mtu: 1450 },
        { name: 'eth0', mac: bench.ipam.leases()[0]?.mac, mtu: 1450, sandbox: '/run/netns/a' },
      ],
      ips: [
        { address: '10.1.0.2/22', gateway: '10.1.0.1', interface: 1 },
        { address: 'fd00:10:1::2/64', gateway: 'fd00:10:1::1', interface: 1 },
      ],
      routes: [
        { dst: '0.0.0.0/0', gw: '10.1.0.1' },
        { dst: '::/0', gw: 'fd00:10:1::1' },
      ],
      dns: {},
    });
  });

  it('continues from the result of earlier plugins', async () => {
    const prevResult = {
      interfaces: [{ name: 'eth9', sandbox: '/run/netns/a' }],
      ips: [{ address: '192.0.2.2/24', interface: 0 }],
      dns: { search: ['a'] },
    };
    const result = JSON.parse((await bench.call('ADD', 'a', { prevResult, dns: { domain: 'd' } })).stdout) as { ips: unknown[] };
    expect(result).toMatchObject({
      interfaces: [{ name: 'eth9' }, { name: 'veth1' }, { name: 'eth0' }],
      dns: { search: ['a'], domain: 'd' },
    });
    expect(result.ips).toMatchObject([{ interface: 0 }, { interface: 2 }, { interface: 2 }]);
  });

  it('twice is rejected, and the first attachment stays', async () => {
    await bench.call('ADD', 'a');
    const before = [...bench.network.wired.values()];
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(104);
    expect([...bench.network.wired.values()]).toEqual(before);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1, quarantined: 0 });
  });

  it('of an interface that the namespace has already allocates nothing', async () => {
    await bench.call('ADD', 'a');
    const run = await bench.call('ADD', 'b', {}, { CNI_NETNS: '/run/netns/a' });
    expect(codeOf(run)).toBe(4);
    expect(run.stdout).toContain('CNI_IFNAME: eth0 exists already');
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.leases().filter(({ state }) => state === 'allocated')).toHaveLength(1);
  });

  it('that fails releases its addresses', async () => {
    bench.network.failAttach = new SeineError('REFUSED', 'no ofport for a-1');
    const run = await bench.call('ADD', 'a');
    expect(JSON.parse(run.stdout)).toMatchObject({ code: 102, msg: 'no ofport for a-1' });
    expect(bench.ipam.leaseOf({ network: 'seine', containerId: 'a', ifName: 'eth0' })).toBeUndefined();
    bench.network.failAttach = undefined;
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });

  it('waits until the data plane is ready', async () => {
    bench.network.become({ state: 'starting', reason: 'no connection to ovs-vswitchd' });
    const running = bench.call('ADD', 'a');
    await eventually(() => expect(bench.network.wired.size).toBe(0));
    bench.network.become({ state: 'ready' });
    expect(codeOf(await running)).toBe(0);
  });

  it('reports why it is not ready at its deadline', async () => {
    bench.network.become({ state: 'starting', reason: 'no connection to ovs-vswitchd' });
    const run = await bench.call('ADD', 'a', { deadline: 1 });
    expect(JSON.parse(run.stdout)).toMatchObject({ code: 11, msg: 'no connection to ovs-vswitchd' });
  });

  it('is rolled back if its deadline comes first', async () => {
    const open = closeGate();
    const running = bench.call('ADD', 'a', { deadline: 0.3 });
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    setTimeout(open, 400);
    expect(codeOf(await running)).toBe(11);
    await eventually(() => expect(bench.ipam.leases().filter(({ state }) => state === 'allocated')).toEqual([]));
    expect(bench.network.wired.size).toBe(0);
  });

  it('requests the address and the MAC of the runtime', async () => {
    const run = await bench.call('ADD', 'a', { runtimeConfig: { ips: ['10.1.3.7/22'], mac: '0A:58:00:00:00:07' } });
    expect(JSON.parse(run.stdout)).toMatchObject({ ips: [{ address: '10.1.3.7/22' }, {}], interfaces: [{}, { mac: '0a:58:00:00:00:07' }] });
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.1.3.7'] } }))).toBe(101);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.9.0.1'] } }))).toBe(7);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['ten'] } }))).toBe(7);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { mac: 'x' } }))).toBe(7);
  });
});

describe('an ADD with unavailable requests', () => {
  const inConf = (conf: Record<string, unknown>) => bench.call('ADD', 'a', conf);
  const inArgs = (CNI_ARGS: string) => bench.call('ADD', 'a', {}, { CNI_ARGS });
  const message = (run: PluginRun) => {
    const { code, msg } = JSON.parse(run.stdout) as { code: number; msg: string };
    return `${code} ${msg}`;
  };

  it.each<[string, () => Promise<PluginRun>]>([
    ['7 runtimeConfig.ips[0]: "ten" is not an IP address', () => inConf({ runtimeConfig: { ips: ['ten'] } })],
    ['7 args.cni.ips[1]: "x" is not an IP address', () => inConf({ args: { cni: { ips: ['10.1.0.5', 'x'] } } })],
    ['4 CNI_ARGS: IP: "10.1.0" is not an IP address', () => inArgs('IP=10.1.0')],
    ['7 runtimeConfig.mac: "x" is not a MAC address', () => inConf({ runtimeConfig: { mac: 'x' } })],
    ['4 CNI_ARGS: MAC: "x" is not a MAC address', () => inArgs('MAC=x')],
    [
      '7 runtimeConfig.mac: 01:00:5e:00:00:01 is not a valid MAC for an interface',
      () => inConf({ runtimeConfig: { mac: '01:00:5e:00:00:01' } }),
    ],
    [
      '7 runtimeConfig.ips[0]: 10.9.0.1 cannot be requested: it is not in pod CIDR 10.1.0.0/22',
      () => inConf({ runtimeConfig: { ips: ['10.9.0.1'] } }),
    ],
    ['4 CNI_ARGS: IP: 10.1.0.1 cannot be requested: it is reserved in pod CIDR 10.1.0.0/22', () => inArgs('IP=10.1.0.1')],
    [
      '7 runtimeConfig.ips[0]: more than one ipv4 address requested: 10.1.0.4, 10.1.0.5',
      () => inConf({ runtimeConfig: { ips: ['10.1.0.4', '10.1.0.5'] } }),
    ],
  ])('is rejected: %s', async (said, call) => {
    expect(message(await call())).toBe(said);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('is rejected with the owner', async () => {
    await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.1.0.9'], mac: '0a:58:00:00:00:09' } });
    expect(message(await inArgs('IP=10.1.0.9'))).toBe('101 CNI_ARGS: IP: 10.1.0.9 is in use');
    expect(message(await inArgs('MAC=0a:58:00:00:00:09'))).toBe('101 CNI_ARGS: MAC: MAC 0a:58:00:00:00:09 is in use');
  });
});

describe('a plugin that disconnects before the answer', () => {
  it('has its pod undone while it is being connected', async () => {
    const open = closeGate();
    const socket = await rawCall('a');
    await eventually(() => expect(bench.network.mostAtOnce).toBe(1));
    socket.destroy();
    open();
    await eventually(() => expect(bench.ipam.leases()).toMatchObject([{ state: 'quarantined' }]));
    expect(bench.network.wired.size).toBe(0);
  });

  it('frees its place for the next call of the same container', async () => {
    const open = closeGate();
    const first = await rawCall('a');
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    const second = await rawCall('a');
    second.destroy();
    const third = await rawCall('a', 'DEL');
    open();
    expect(JSON.parse((await replyOn(first)).stdout)).toMatchObject({ cniVersion: '1.1.0' });
    expect(await replyOn(third)).toMatchObject({ exit: 0 });
    expect(bench.network.wired.size).toBe(0);
  });
});

describe('a plugin that lost its connection to an agent that restarts', () => {
  it('gets the same answer if the pod is complete', async () => {
    const { stdout } = await bench.call('ADD', 'a');
    await bench.stop();
    await bench.start();
    expect((await replyOn(await rawCall('a', 'ADD', 2))).stdout).toBe(stdout);
    expect(bench.network.wired.size).toBe(1);
  });

  it('gets a new pod if the old one is incomplete', async () => {
    await bench.call('ADD', 'a');
    bench.network.wired.clear();
    expect((await replyOn(await rawCall('a', 'ADD', 2))).exit).toBe(0);
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.leases().map(({ state }) => state)).toEqual(['quarantined', 'allocated']);
  });

  it('gets a new pod if the agent died before the old one was acknowledged', async () => {
    const key = { network: 'seine', containerId: 'a', ifName: 'eth0' };
    await bench.ipam.allocate({ ...key, netns: '/run/netns/a', addresses: [] }, new AbortController().signal);
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });

  it('waits for the agent and is served', async () => {
    await bench.stop();
    const running = bench.call('ADD', 'a');
    await bench.start();
    expect(codeOf(await running)).toBe(0);
  });
});

describe('calls for one container', () => {
  it('run one after another, those for different containers concurrently', async () => {
    const open = closeGate();
    const ids = Array.from({ length: 20 }, (_, index) => `c${index}`);
    const running = ids.flatMap((id) => [bench.call('ADD', id), bench.call('DEL', id), bench.call('DEL', id)]);
    await eventually(() => expect(bench.network.mostAtOnce).toBe(20));
    open();
    for (const run of await Promise.all(running)) expect(codeOf(run)).toBe(0);
  });
});

describe('DEL', () => {
  it('removes, and succeeds again, also for an unknown attachment', async () => {
    await bench.call('ADD', 'a');
    for (const netns of ['/run/netns/a', '', '/gone'])
      expect(await bench.call('DEL', 'a', {}, { CNI_NETNS: netns })).toMatchObject({ exit: 0, stdout: '' });
    expect(bench.network.wired.size).toBe(0);
    expect(await bench.call('DEL', 'never-seen')).toMatchObject({ exit: 0 });
  });

  it('of another interface or network keeps the attachment', async () => {
    await bench.call('ADD', 'a');
    await bench.call('DEL', 'a', {}, { CNI_IFNAME: 'eth1' });
    await bench.call('DEL', 'a', { name: 'other' });
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1 });
  });

  it('never releases an address that another container has by now', async () => {
    await bench.call('ADD', 'a', { runtimeConfig: { ips: ['10.1.0.9'] } });
    await bench.call('DEL', 'a');
    await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.1.0.9'] } });
    await bench.call('DEL', 'a');
    expect(bench.ipam.leaseOf({ network: 'seine', containerId: 'b', ifName: 'eth0' })).toMatchObject({ state: 'allocated' });
    expect(codeOf(await bench.call('ADD', 'c', { runtimeConfig: { ips: ['10.1.0.9'] } }))).toBe(101);
  });

  it('that fails keeps the lease, for the next try', async () => {
    await bench.call('ADD', 'a');
    bench.network.failDetach = new SeineError('UNAVAILABLE', 'ovsdb-server does not answer');
    expect(codeOf(await bench.call('DEL', 'a'))).toBe(102);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1 });
    bench.network.failDetach = undefined;
    expect(codeOf(await bench.call('DEL', 'a'))).toBe(0);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 0 });
  });
});

describe('a DEL that found no agent', () => {
  const recorded = () => readdirSync(join(bench.stateDir, 'deletions'));

  it('is executed when the agent is back', async () => {
    await bench.call('ADD', 'a');
    await bench.stop();
    expect(await bench.call('DEL', 'a', { deadline: 0.05 })).toMatchObject({ exit: 0, stdout: '' });
    expect(recorded()).toHaveLength(1);
    await bench.start();
    await eventually(() => expect(recorded()).toEqual([]));
    expect(bench.network.wired.size).toBe(0);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 0 });
  });

  it('never removes a later attachment', async () => {
    await bench.call('ADD', 'a');
    await bench.stop();
    await bench.call('DEL', 'a', { deadline: 0.05 });
    bench.network.become({ state: 'starting', reason: 'not yet' });
    await bench.start();
    const added = bench.call('ADD', 'a');
    bench.network.become({ state: 'ready' });
    expect(codeOf(await added)).toBe(0);
    await eventually(() => expect(recorded()).toEqual([]));
    expect(bench.network.wired.size).toBe(1);
    expect(codeOf(await bench.call('DEL', 'a'))).toBe(0);
  });

  it('is executed before any ADD is served', async () => {
    await bench.remove();
    bench = await new CniBench(['10.1.0.0/30']).start(); // one address
    await bench.call('ADD', 'a');
    await bench.stop();
    await bench.call('DEL', 'a', { deadline: 0.05 });
    const open = closeGate();
    await bench.start();
    const added = bench.call('ADD', 'b');
    await eventually(() => expect(bench.network.mostAtOnce).toBe(1));
    expect(bench.ipam.leases()).toMatchObject([{ containerId: 'a', state: 'allocated' }]);
    open();
    expect(JSON.parse((await added).stdout)).toMatchObject({ ips: [{ address: '10.1.0.2/30' }] });
  });

  it('that fails delays no ADD', async () => {
    await bench.call('ADD', 'a');
    await bench.stop();
    await bench.call('DEL', 'a', { deadline: 0.05 });
    bench.network.failDetach = new SeineError('UNAVAILABLE', 'ovsdb-server does not answer');
    await bench.start();
    expect(codeOf(await bench.call('ADD', 'b'))).toBe(0);
    expect(recorded()).toHaveLength(1);
  });

  it('is one of thousands, and they run concurrently', async () => {
    await bench.stop();
    for (let id = 0; id < 500; id++) await bench.call('DEL', `gone${id}`, { deadline: 0.001 });
    expect(recorded()).toHaveLength(500);
    await bench.start();
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
    expect(recorded()).toEqual([]);
  });

  it('that cannot be read is dropped, and delays no other call', async () => {
    await bench.stop();
    mkdirSync(join(bench.stateDir, 'deletions'), { recursive: true });
    writeFileSync(join(bench.stateDir, 'deletions', `${'0'.repeat(64)}.json`), '{"v":1');
    writeFileSync(join(bench.stateDir, 'deletions', '.new-1-1'), 'torn');
    await bench.start();
    await eventually(() => expect(recorded()).toEqual(['.new-1-1']));
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });
});
