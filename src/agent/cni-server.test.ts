import { Buffer } from 'node:buffer';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CniBench, type PluginRun } from '../../test/support/cni-bench.ts';
import { CniError, cniCodes } from '../cni/errors.ts';
import { encodeRequest } from '../cni/wire.ts';
import { SeineError } from '../errors/seine-error.ts';

/** Waits for what comes soon, and long enough for a busy machine. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

let bench: CniBench;
beforeEach(async () => {
  bench = await new CniBench().start();
});
afterEach(() => bench.remove());

const codeOf = ({ exit, stdout }: PluginRun) => (exit === 0 ? 0 : (JSON.parse(stdout) as { code: number }).code);
const prevResultOf = ({ stdout }: PluginRun) => ({ prevResult: JSON.parse(stdout) as Record<string, unknown> });

/** A gate for the fake data plane: everything waits until it is opened. */
function closeGate(): () => void {
  let open = () => {};
  bench.network.gate = new Promise((resolve) => (open = resolve));
  return open;
}

/** A plugin that sends its call and then does what the test says. */
async function rawCall(containerId: string, command = 'ADD', attempt = 1): Promise<Socket> {
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: `/run/netns/${containerId}`,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/opt/cni/bin',
  };
  const conf = bench.aim(JSON.stringify({ cniVersion: '1.1.0', name: 'seine', type: 'seine' }));
  const body = Buffer.from(encodeRequest({ env, conf, deadlineMs: 5_000, attempt }));
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  const socket = connect(bench.socketPath);
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write(Buffer.concat([header, body]));
  return socket;
}

async function replyOn(socket: Socket): Promise<{ exit: number; stdout: string }> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8', 4)) as { exit: number; stdout: string };
}

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

  it('goes on from the result of plugins before it', async () => {
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

  it('twice is refused, and the first attachment stays as it is', async () => {
    await bench.call('ADD', 'a');
    const before = [...bench.network.wired.values()];
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(104);
    expect([...bench.network.wired.values()]).toEqual(before);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1, quarantined: 0 });
  });

  it('of an interface that the namespace has already takes nothing', async () => {
    await bench.call('ADD', 'a');
    const run = await bench.call('ADD', 'b', {}, { CNI_NETNS: '/run/netns/a' });
    expect(codeOf(run)).toBe(4);
    expect(run.stdout).toContain('CNI_IFNAME: eth0 exists already');
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.leases().filter(({ state }) => state === 'allocated')).toHaveLength(1);
  });

  it('that fails gives its addresses back', async () => {
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

  it('says why it is not ready when its time is over', async () => {
    bench.network.become({ state: 'starting', reason: 'no connection to ovs-vswitchd' });
    const run = await bench.call('ADD', 'a', { deadline: 0.3 });
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

  it('asks for the address and the MAC the runtime wants', async () => {
    const run = await bench.call('ADD', 'a', { runtimeConfig: { ips: ['10.1.3.7/22'], mac: '0A:58:00:00:00:07' } });
    expect(JSON.parse(run.stdout)).toMatchObject({ ips: [{ address: '10.1.3.7/22' }, {}], interfaces: [{}, { mac: '0a:58:00:00:00:07' }] });
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.1.3.7'] } }))).toBe(101);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.9.0.1'] } }))).toBe(7);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { ips: ['ten'] } }))).toBe(7);
    expect(codeOf(await bench.call('ADD', 'b', { runtimeConfig: { mac: 'x' } }))).toBe(7);
  });
});

describe('an ADD that asks for what it cannot get', () => {
  const inConf = (conf: Record<string, unknown>) => bench.call('ADD', 'a', conf);
  const inArgs = (CNI_ARGS: string) => bench.call('ADD', 'a', {}, { CNI_ARGS });
  const message = (run: PluginRun) => {
    const { code, msg } = JSON.parse(run.stdout) as { code: number; msg: string };
    return `${code} ${msg}`;
  };

  it.each<[string, () => Promise<PluginRun>]>([
    ['7 runtimeConfig.ips[0]: "ten" is no IP address', () => inConf({ runtimeConfig: { ips: ['ten'] } })],
    ['7 args.cni.ips[1]: "x" is no IP address', () => inConf({ args: { cni: { ips: ['10.1.0.5', 'x'] } } })],
    ['4 CNI_ARGS: IP: "10.1.0" is no IP address', () => inArgs('IP=10.1.0')],
    ['7 runtimeConfig.mac: "x" is no MAC address', () => inConf({ runtimeConfig: { mac: 'x' } })],
    ['4 CNI_ARGS: MAC: "x" is no MAC address', () => inArgs('MAC=x')],
    [
      '7 runtimeConfig.mac: 01:00:5e:00:00:01 is no MAC an interface can have',
      () => inConf({ runtimeConfig: { mac: '01:00:5e:00:00:01' } }),
    ],
    [
      '7 runtimeConfig.ips[0]: 10.9.0.1 cannot be asked for: it is not in pod CIDR 10.1.0.0/22',
      () => inConf({ runtimeConfig: { ips: ['10.9.0.1'] } }),
    ],
    ['4 CNI_ARGS: IP: 10.1.0.1 cannot be asked for: it is reserved in pod CIDR 10.1.0.0/22', () => inArgs('IP=10.1.0.1')],
    [
      '7 runtimeConfig.ips[0]: more than one ipv4 address asked for: 10.1.0.4, 10.1.0.5',
      () => inConf({ runtimeConfig: { ips: ['10.1.0.4', '10.1.0.5'] } }),
    ],
  ])('is told: %s', async (said, call) => {
    expect(message(await call())).toBe(said);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('is told who is in the way', async () => {
    await bench.call('ADD', 'b', { runtimeConfig: { ips: ['10.1.0.9'], mac: '0a:58:00:00:00:09' } });
    expect(message(await inArgs('IP=10.1.0.9'))).toBe('101 CNI_ARGS: IP: 10.1.0.9 is in use');
    expect(message(await inArgs('MAC=0a:58:00:00:00:09'))).toBe('101 CNI_ARGS: MAC: MAC 0a:58:00:00:00:09 is in use');
  });
});

describe('a plugin that goes away before the answer', () => {
  it('has its pod taken back while it is being wired', async () => {
    const open = closeGate();
    const socket = await rawCall('a');
    await eventually(() => expect(bench.network.mostAtOnce).toBe(1));
    socket.destroy();
    open();
    await eventually(() => expect(bench.ipam.leases()).toMatchObject([{ state: 'quarantined' }]));
    expect(bench.network.wired.size).toBe(0);
  });

  it('leaves its place to the next call for the same container', async () => {
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
  it('gets the same answer if the pod is there', async () => {
    const { stdout } = await bench.call('ADD', 'a');
    await bench.stop();
    await bench.start();
    expect((await replyOn(await rawCall('a', 'ADD', 2))).stdout).toBe(stdout);
    expect(bench.network.wired.size).toBe(1);
  });

  it('gets a new pod if the old one is not whole', async () => {
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
  it('run one after another, those for different containers side by side', async () => {
    const open = closeGate();
    const ids = Array.from({ length: 20 }, (_, index) => `c${index}`);
    const running = ids.flatMap((id) => [bench.call('ADD', id), bench.call('DEL', id), bench.call('DEL', id)]);
    await eventually(() => expect(bench.network.mostAtOnce).toBe(20));
    open();
    for (const run of await Promise.all(running)) expect(codeOf(run)).toBe(0);
  });
});

describe('DEL', () => {
  it('removes, and again is fine, also of what nobody knows', async () => {
    await bench.call('ADD', 'a');
    for (const netns of ['/run/netns/a', '', '/gone'])
      expect(await bench.call('DEL', 'a', {}, { CNI_NETNS: netns })).toMatchObject({ exit: 0, stdout: '' });
    expect(bench.network.wired.size).toBe(0);
    expect(await bench.call('DEL', 'never-seen')).toMatchObject({ exit: 0 });
  });

  it('of another interface or network leaves the attachment alone', async () => {
    await bench.call('ADD', 'a');
    await bench.call('DEL', 'a', {}, { CNI_IFNAME: 'eth1' });
    await bench.call('DEL', 'a', { name: 'other' });
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1 });
  });

  it('never frees an address that another container has by now', async () => {
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

  it('is done when the agent is back', async () => {
    await bench.call('ADD', 'a');
    await bench.stop();
    expect(await bench.call('DEL', 'a', { deadline: 0.05 })).toMatchObject({ exit: 0, stdout: '' });
    expect(recorded()).toHaveLength(1);
    await bench.start();
    await eventually(() => expect(recorded()).toEqual([]));
    expect(bench.network.wired.size).toBe(0);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 0 });
  });

  it('never removes what was attached after it', async () => {
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

  it('is done before any ADD is served', async () => {
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

  it('that cannot be done keeps no ADD waiting', async () => {
    await bench.call('ADD', 'a');
    await bench.stop();
    await bench.call('DEL', 'a', { deadline: 0.05 });
    bench.network.failDetach = new SeineError('UNAVAILABLE', 'ovsdb-server does not answer');
    await bench.start();
    expect(codeOf(await bench.call('ADD', 'b'))).toBe(0);
    expect(recorded()).toHaveLength(1);
  });

  it('is one of thousands, and they are done side by side', async () => {
    await bench.stop();
    for (let id = 0; id < 500; id++) await bench.call('DEL', `gone${id}`, { deadline: 0.001 });
    expect(recorded()).toHaveLength(500);
    await bench.start();
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
    expect(recorded()).toEqual([]);
  });

  it('that cannot be read is dropped, and stops nobody', async () => {
    await bench.stop();
    mkdirSync(join(bench.stateDir, 'deletions'), { recursive: true });
    writeFileSync(join(bench.stateDir, 'deletions', `${'0'.repeat(64)}.json`), '{"v":1');
    writeFileSync(join(bench.stateDir, 'deletions', '.new-1-1'), 'torn');
    await bench.start();
    await eventually(() => expect(recorded()).toEqual(['.new-1-1']));
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });
});

describe('CHECK', () => {
  it('finds nothing after ADD, and names what differs', async () => {
    const added = await bench.call('ADD', 'a');
    expect(await bench.call('CHECK', 'a', prevResultOf(added))).toMatchObject({ exit: 0, stdout: '' });
    bench.network.differences = ['flow table=spoofGuard for 10.1.0.2 is missing', 'route ::/0 is missing'];
    expect(JSON.parse((await bench.call('CHECK', 'a', prevResultOf(added))).stdout)).toMatchObject({
      code: 103,
      msg: 'flow table=spoofGuard for 10.1.0.2 is missing',
      details: 'route ::/0 is missing',
    });
  });

  it('compares with the result the runtime remembers, and tolerates what later plugins added', async () => {
    const { prevResult } = prevResultOf(await bench.call('ADD', 'a', { cniVersion: '1.0.0' }));
    const check = async (change: Record<string, unknown>) =>
      await bench.call('CHECK', 'a', { cniVersion: '1.0.0', prevResult: { ...prevResult, ...change } });
    const interfaces = prevResult['interfaces'] as Record<string, unknown>[];
    const ips = prevResult['ips'] as Record<string, unknown>[];
    expect(codeOf(await check({ interfaces: [...interfaces, { name: 'ifb0' }], ips: [...ips, { address: '192.0.2.1/32' }] }))).toBe(0);
    expect((await check({ ips: ips.slice(1) })).stdout).toContain('prevResult does not have 10.1.0.2');
    expect((await check({ interfaces: interfaces.slice(0, 1) })).stdout).toContain('prevResult has no interface eth0');
    expect((await check({ interfaces: [{ ...interfaces[1], mac: '02:00:00:00:00:99' }] })).stdout).toContain('it was attached with');
  });

  it('of what nobody knows is code 3', async () => {
    const added = await bench.call('ADD', 'a');
    expect(codeOf(await bench.call('CHECK', 'b', prevResultOf(added)))).toBe(3);
  });
});

describe('STATUS', () => {
  it('tells not ready from impaired, and speaks up when addresses run out', async () => {
    expect(await bench.call('STATUS', '')).toMatchObject({ exit: 0, stdout: '' });
    bench.network.become({ state: 'starting', reason: 'first sync' });
    expect(codeOf(await bench.call('STATUS', ''))).toBe(50);
    bench.network.become({ state: 'impaired', reason: 'no vswitchd' });
    expect(codeOf(await bench.call('STATUS', ''))).toBe(51);
  });

  describe('with two addresses in all', () => {
    beforeEach(async () => {
      await bench.remove();
      bench = await new CniBench(['10.1.0.0/30', 'fd00::/126']).start();
      await bench.call('ADD', 'a');
    });

    it('says 50 when they are lent, and which pool is at its end', async () => {
      const run = await bench.call('STATUS', '');
      expect(JSON.parse(run.stdout)).toMatchObject({ code: 50, msg: 'no address is left in 10.1.0.0/30', details: '1 of 1 are lent' });
    });

    it('lets quarantine shrink to nothing first, whoever may still send there', async () => {
      bench.isSpokenFor = () => true;
      await bench.call('DEL', 'a');
      expect(await bench.ipam.reclaim(new AbortController().signal)).toBe(0);
      expect(await bench.call('STATUS', '')).toMatchObject({ exit: 0 });
      expect(codeOf(await bench.call('ADD', 'b'))).toBe(0);
    });

    it('says 50 while what is in quarantine may still be there, and an ADD waits a little', async () => {
      let absent = false;
      bench.absent = () => absent;
      await bench.call('DEL', 'a');
      expect(codeOf(await bench.call('STATUS', ''))).toBe(50);
      const added = bench.call('ADD', 'b');
      setTimeout(() => (absent = true), 100);
      expect(codeOf(await added)).toBe(0);
    });

    it('does not say so if it is told not to', async () => {
      await bench.stop();
      bench.reportPoolExhausted = false;
      await bench.start();
      expect(await bench.call('STATUS', '')).toMatchObject({ exit: 0 });
      expect(codeOf(await bench.call('ADD', 'b'))).toBe(101);
    });
  });
});

describe('GC', () => {
  const gc = async (...ids: readonly string[]) =>
    await bench.call('GC', '', { 'cni.dev/valid-attachments': ids.map((containerID) => ({ containerID, ifname: 'eth0' })) });

  it('removes what is not in the list, of its own network only', async () => {
    for (const id of ['a', 'b', 'c']) await bench.call('ADD', id);
    await bench.call('ADD', 'd', { name: 'other' });
    expect(await gc('b')).toMatchObject({ exit: 0, stdout: '' });
    expect([...bench.network.wired.keys()].toSorted()).toEqual(['other/d/eth0', 'seine/b/eth0']);
  });

  it('of an empty list removes all, and again is free', async () => {
    for (const id of ['a', 'b']) await bench.call('ADD', id);
    expect(await gc()).toMatchObject({ exit: 0 });
    expect(bench.network.wired.size).toBe(0);
    let asked = 0;
    const { detach } = bench.network;
    bench.network.detach = async (...call) => {
      asked++;
      await detach.apply(bench.network, call);
    };
    for (let again = 0; again < 3; again++) expect(await gc()).toMatchObject({ exit: 0, stdout: '' });
    expect(asked).toBe(0);
  });

  it('leaves an ADD that is under way alone', async () => {
    const open = closeGate();
    const added = bench.call('ADD', 'a');
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    expect(await gc()).toMatchObject({ exit: 0 });
    open();
    expect(codeOf(await added)).toBe(0);
    expect(bench.network.wired.size).toBe(1);
  });

  it('keeps in quarantine what the runtime calls valid, until it deletes it', async () => {
    const key = { network: 'seine', containerId: 'a', ifName: 'eth0' };
    const reclaim = () => bench.ipam.reclaim(new AbortController().signal, 'urgent');
    await bench.call('ADD', 'a');
    bench.ipam.release(key); // as when its interface is not found after a restart
    expect(await gc('a')).toMatchObject({ exit: 0 });
    expect(await reclaim()).toBe(0);
    await bench.call('DEL', 'a');
    expect(await reclaim()).toBe(1);
  });

  it('goes on after a failure and reports it', async () => {
    for (const id of ['a', 'b']) await bench.call('ADD', id);
    bench.network.failDetach = new SeineError('REFUSED', 'no');
    expect(JSON.parse((await gc()).stdout)).toMatchObject({ code: 102, msg: '2 of 2 attachments not removed' });
  });
});

describe('an IPAM plugin that the network names', () => {
  const ipam = { ipam: { type: 'host-local' } };

  it('lends the addresses and gets them back', async () => {
    expect(JSON.parse((await bench.call('ADD', 'a', ipam)).stdout)).toMatchObject({
      ips: [{ address: '10.98.0.2/24', gateway: '10.98.0.1' }],
    });
    expect([...bench.delegatedIpam.lent.values()]).toEqual(['10.98.0.2']);
    await bench.call('DEL', 'a', ipam);
    expect(bench.delegatedIpam.lent.size).toBe(0);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('adds its routes and its DNS to the result', async () => {
    const result = JSON.parse((await bench.call('ADD', 'a', ipam)).stdout);
    expect(result.routes).toEqual([{ dst: '0.0.0.0/0', gw: '10.98.0.1' }, { dst: '198.51.100.0/24' }]);
    expect(result.dns).toEqual({ nameservers: ['10.98.0.1'] });
    expect([...bench.network.wired.values()][0]?.routes).toMatchObject([{ destination: { text: '198.51.100.0/24' } }]);
    await bench.stop();
    await bench.start();
    expect(JSON.parse((await replyOn(await rawCall('a', 'ADD', 2))).stdout)).toEqual(result);
  });

  it('is asked by STATUS and GC, and its failure is theirs', async () => {
    expect(await bench.call('STATUS', '', ipam)).toMatchObject({ exit: 0 });
    const list = { 'cni.dev/valid-attachments': [{ containerID: 'a', ifname: 'eth0' }] };
    expect(await bench.call('GC', '', { ...ipam, ...list })).toMatchObject({ exit: 0 });
    expect(bench.delegatedIpam.collected.map((conf) => JSON.parse(conf))).toMatchObject([list]);
    bench.delegatedIpam.failure = new CniError(cniCodes.ipamPluginFailed, 'IPAM plugin host-local: nothing left');
    expect(JSON.parse((await bench.call('STATUS', '', ipam)).stdout)).toMatchObject({
      code: 50,
      msg: 'IPAM plugin host-local: nothing left',
    });
    expect(codeOf(await bench.call('GC', '', { ...ipam, ...list }))).toBe(105);
    expect(codeOf(await bench.call('STATUS', '', { ipam: { type: 'no-such' } }))).toBe(50);
  });

  it('gets back what it gave to an ADD whose answer is of no use', async () => {
    const { add } = bench.delegatedIpam;
    bench.delegatedIpam.add = async (...call) => {
      await add.apply(bench.delegatedIpam, call);
      throw new CniError(cniCodes.ipamPluginFailed, 'IPAM plugin host-local: it gave no address');
    };
    expect(codeOf(await bench.call('ADD', 'a', ipam))).toBe(105);
    expect(bench.delegatedIpam.lent.size).toBe(0);
  });

  it('gets them back if the pod cannot be wired', async () => {
    bench.network.failAttach = new SeineError('REFUSED', 'no');
    expect(codeOf(await bench.call('ADD', 'a', ipam))).toBe(102);
    expect(bench.delegatedIpam.lent.size).toBe(0);
    expect(bench.ipam.leases()).toEqual([]);
  });
});

describe('the socket', () => {
  it('is for root alone', async () => {
    expect(statSync(bench.socketPath).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(bench.socketPath)).mode & 0o777).toBe(0o700);
    bench.peerUid = 1000;
    expect(codeOf(await bench.call('ADD', 'a', { deadline: 0.1 }))).toBe(11);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('of a live agent is not taken over', async () => {
    await expect(bench.listen()).rejects.toMatchObject({ code: 'REFUSED', message: expect.stringContaining('another agent listens') });
    await expect(bench.start()).rejects.toMatchObject({ code: 'REFUSED', message: expect.stringContaining('ipam.journal') });
    expect(codeOf(await bench.call('STATUS', ''))).toBe(0);
  });

  it('drops what is no request, and goes on', async () => {
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.from([0xff, 0xff, 0xff, 0xff]),
      Buffer.from([0, 0, 0, 2, 0x7b, 0x7d, 0x7d]),
    ]) {
      const socket = connect(bench.socketPath);
      socket.write(bytes);
      await new Promise((resolve) => socket.once('close', resolve).on('error', () => {}));
    }
    const socket = connect(bench.socketPath);
    socket.write(Buffer.from([0, 0, 0, 2, 0x7b, 0x7d]));
    expect(JSON.parse((await replyOn(socket)).stdout)).toMatchObject({ code: 106 });
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });

  it('takes a request in any pieces', async () => {
    const env = { CNI_COMMAND: 'VERSION' };
    const body = Buffer.from(encodeRequest({ env, conf: '', deadlineMs: 1_000, attempt: 1 }));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    const socket = connect(bench.socketPath);
    socket.setNoDelay(true);
    for (const byte of Buffer.concat([header, body])) {
      socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await replyOn(socket)).exit).toBe(0);
  });
});

it('reports each call with its code and where its time went', async () => {
  await bench.call('ADD', 'a');
  await bench.call('ADD', 'a');
  expect(bench.served).toMatchObject([
    { command: 'ADD', code: 0, tookMs: expect.any(Number) },
    { command: 'ADD', code: 104 },
  ]);
  const [first] = bench.served;
  expect(first?.stages.map(([stage]) => stage)).toEqual(['ready', 'turn', 'addresses', 'wiring']);
  const inStages = first?.stages.reduce((sum, [, ms]) => sum + ms, 0) ?? Number.NaN;
  expect(inStages).toBeLessThanOrEqual(first?.tookMs ?? 0);
});

it('replaces the socket of an agent that died, and no other file', async () => {
  await bench.stop();
  const dead = createServer();
  await new Promise<void>((resolve) => dead.listen(join(bench.folder, 'dead.sock'), resolve));
  renameSync(join(bench.folder, 'dead.sock'), bench.socketPath);
  await new Promise((resolve) => dead.close(resolve));
  expect(existsSync(bench.socketPath)).toBe(true);
  await bench.start();
  expect(codeOf(await bench.call('STATUS', ''))).toBe(0);
  await bench.stop();
  writeFileSync(bench.socketPath, 'precious');
  await expect(bench.start()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
