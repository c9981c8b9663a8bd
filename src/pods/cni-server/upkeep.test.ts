import { existsSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CniBench, codeOf, type PluginRun, replyOn } from '../../../test/support/cni-bench.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';

/** Waits for a condition, long enough for a busy host. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

let bench: CniBench;
beforeEach(async () => {
  bench = await new CniBench().start();
});
afterEach(() => bench.remove());

const prevResultOf = ({ stdout }: PluginRun) => ({ prevResult: JSON.parse(stdout) as Record<string, unknown> });

describe('CHECK', () => {
  it('finds nothing after ADD, and names differences', async () => {
    const added = await bench.call('ADD', 'a');
    expect(await bench.call('CHECK', 'a', prevResultOf(added))).toMatchObject({ exit: 0, stdout: '' });
    bench.network.differences = ['flow table=spoofGuard for 10.1.0.2 is missing', 'route ::/0 is missing'];
    expect(JSON.parse((await bench.call('CHECK', 'a', prevResultOf(added))).stdout)).toMatchObject({
      code: 103,
      msg: 'flow table=spoofGuard for 10.1.0.2 is missing',
      details: 'route ::/0 is missing',
    });
  });

  it("compares with the runtime's cached result, and tolerates additions of later plugins", async () => {
    const { prevResult } = prevResultOf(await bench.call('ADD', 'a', { cniVersion: '1.0.0' }));
    const check = async (change: Record<string, unknown>) =>
      await bench.call('CHECK', 'a', { cniVersion: '1.0.0', prevResult: { ...prevResult, ...change } });
    const interfaces = prevResult['interfaces'] as Record<string, unknown>[];
    const ips = prevResult['ips'] as Record<string, unknown>[];
    expect(codeOf(await check({ interfaces: [...interfaces, { name: 'ifb0' }], ips: [...ips, { address: '192.0.2.1/32' }] }))).toBe(0);
    expect((await check({ ips: ips.slice(1) })).stdout).toContain('prevResult does not have 10.1.0.2');
    expect((await check({ interfaces: interfaces.slice(0, 1) })).stdout).toContain('prevResult has no interface eth0');
    expect((await check({ interfaces: [{ ...interfaces[1], mac: '02:00:00:00:00:99' }] })).stdout).toContain('which was attached with');
  });

  it('of an unknown attachment is code 3', async () => {
    const added = await bench.call('ADD', 'a');
    expect(codeOf(await bench.call('CHECK', 'b', prevResultOf(added)))).toBe(3);
  });
});

describe('STATUS', () => {
  it('distinguishes not ready from impaired, and reports exhausted addresses', async () => {
    expect(await bench.call('STATUS', '')).toMatchObject({ exit: 0, stdout: '' });
    bench.network.become({ state: 'starting', reason: 'first sync' });
    const starting = await bench.call('STATUS', '', { deadline: 1 });
    expect(JSON.parse(starting.stdout)).toMatchObject({ code: 50, msg: 'first sync' });
    bench.network.become({ state: 'impaired', reason: 'no vswitchd' });
    expect(codeOf(await bench.call('STATUS', ''))).toBe(51);
  });

  it('waits for an agent that starts', async () => {
    bench.network.become({ state: 'starting', reason: 'first sync' });
    const asked = bench.call('STATUS', '');
    await expect.poll(() => bench.network.isAwaited).toBe(true);
    bench.network.become({ state: 'ready' });
    expect(await asked).toMatchObject({ exit: 0 });
  });

  describe('with two addresses in all', () => {
    beforeEach(async () => {
      await bench.remove();
      bench = await new CniBench(['10.1.0.0/30', 'fd00::/126']).start();
      await bench.call('ADD', 'a');
    });

    it('is 50 when they are allocated, and names the exhausted pool', async () => {
      const run = await bench.call('STATUS', '');
      expect(JSON.parse(run.stdout)).toMatchObject({ code: 50, msg: 'no address is left in 10.1.0.0/30', details: '1 of 1 are allocated' });
    });

    it('lets quarantine shrink to nothing first, even if peers may still send there', async () => {
      bench.isSpokenFor = () => true;
      await bench.call('DEL', 'a');
      expect(await bench.ipam.reclaim(new AbortController().signal)).toBe(0);
      expect(await bench.call('STATUS', '')).toMatchObject({ exit: 0 });
      expect(codeOf(await bench.call('ADD', 'b'))).toBe(0);
    });

    it('is 50 while addresses in quarantine may still be present, and an ADD waits a little', async () => {
      let absent = false;
      bench.absent = () => absent;
      await bench.call('DEL', 'a');
      expect(codeOf(await bench.call('STATUS', ''))).toBe(50);
      const added = bench.call('ADD', 'b');
      setTimeout(() => (absent = true), 100);
      expect(codeOf(await added)).toBe(0);
    });

    it('is not 50 if disabled', async () => {
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

  it('removes attachments that are not in the list, of its own network only', async () => {
    for (const id of ['a', 'b', 'c']) await bench.call('ADD', id);
    await bench.call('ADD', 'd', { name: 'other' });
    expect(await gc('b')).toMatchObject({ exit: 0, stdout: '' });
    expect([...bench.network.wired.keys()].toSorted()).toEqual(['other/d/eth0', 'seine/b/eth0']);
  });

  it('of an empty list removes all, and succeeds again', async () => {
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

  it('keeps an ADD in progress', async () => {
    const open = bench.closeGate();
    const added = bench.call('ADD', 'a');
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    expect(await gc()).toMatchObject({ exit: 0 });
    open();
    expect(codeOf(await added)).toBe(0);
    expect(bench.network.wired.size).toBe(1);
  });

  it('keeps in quarantine attachments that the runtime calls valid, until it deletes them', async () => {
    const key = { network: 'seine', containerId: 'a', ifName: 'eth0' };
    const reclaim = () => bench.ipam.reclaim(new AbortController().signal, 'urgent');
    await bench.call('ADD', 'a');
    bench.ipam.release(key); // as if its interface was not found after a restart
    expect(await gc('a')).toMatchObject({ exit: 0 });
    expect(await reclaim()).toBe(0);
    await bench.call('DEL', 'a');
    expect(await reclaim()).toBe(1);
  });

  it('continues after a failure and reports it', async () => {
    for (const id of ['a', 'b']) await bench.call('ADD', id);
    bench.network.failDetach = new SeineError('REFUSED', 'no');
    expect(JSON.parse((await gc()).stdout)).toMatchObject({ code: 102, msg: '2 of 2 attachments not removed' });
  });
});

describe('an IPAM plugin that the network names', () => {
  const ipam = { ipam: { type: 'host-local' } };

  it('allocates the addresses and gets them back', async () => {
    expect(JSON.parse((await bench.call('ADD', 'a', ipam)).stdout)).toMatchObject({
      ips: [{ address: '10.98.0.2/24', gateway: '10.98.0.1' }],
    });
    expect([...bench.delegatedIpam.allocated.values()]).toEqual(['10.98.0.2']);
    await bench.call('DEL', 'a', ipam);
    expect(bench.delegatedIpam.allocated.size).toBe(0);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('adds its routes and its DNS to the result', async () => {
    const result = JSON.parse((await bench.call('ADD', 'a', ipam)).stdout);
    expect(result.routes).toEqual([{ dst: '0.0.0.0/0', gw: '10.98.0.1' }, { dst: '198.51.100.0/24' }]);
    expect(result.dns).toEqual({ nameservers: ['10.98.0.1'] });
    expect([...bench.network.wired.values()][0]?.routes).toMatchObject([{ destination: { text: '198.51.100.0/24' } }]);
    await bench.stop();
    await bench.start();
    expect(JSON.parse((await replyOn(await bench.rawCall('a', 'ADD', 2))).stdout)).toEqual(result);
  });

  it('is called by STATUS and GC, and its failure is theirs', async () => {
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

  it('gets back addresses of an ADD whose answer is invalid', async () => {
    const { add } = bench.delegatedIpam;
    bench.delegatedIpam.add = async (...call) => {
      await add.apply(bench.delegatedIpam, call);
      throw new CniError(cniCodes.ipamPluginFailed, 'IPAM plugin host-local: it returned no address');
    };
    expect(codeOf(await bench.call('ADD', 'a', ipam))).toBe(105);
    expect(bench.delegatedIpam.allocated.size).toBe(0);
  });

  it('gets them back if the pod cannot be connected', async () => {
    bench.network.failAttach = new SeineError('REFUSED', 'no');
    expect(codeOf(await bench.call('ADD', 'a', ipam))).toBe(102);
    expect(bench.delegatedIpam.allocated.size).toBe(0);
    expect(bench.ipam.leases()).toEqual([]);
  });
});

it('reports each call with its code and the time of its stages', async () => {
  await bench.call('ADD', 'a');
  await bench.call('ADD', 'a');
  expect(bench.served).toMatchObject([
    { command: 'ADD', code: 0, tookMs: expect.any(Number) },
    { command: 'ADD', code: 104 },
  ]);
  const [first] = bench.served;
  expect(first?.stages.map(([stage]) => stage)).toEqual(['ready', 'turn', 'addresses', 'wiring', 'disk']);
  const inStages = first?.stages.reduce((sum, [, ms]) => sum + ms, 0) ?? Number.NaN;
  expect(inStages).toBeLessThanOrEqual(first?.tookMs ?? 0);
});

describe('the socket that another process removes', () => {
  it.each([
    ['alone', () => rmSync(bench.socketPath)],
    ['with its folder', () => rmSync(dirname(bench.socketPath), { recursive: true })],
  ])('%s is recreated, and served calls continue', async (_, remove) => {
    bench.network.become({ state: 'starting', reason: 'test' });
    const waiting = bench.call('ADD', 'a');
    await eventually(() => expect(existsSync(bench.socketPath)).toBe(true));
    remove();
    await eventually(() => expect(existsSync(bench.socketPath)).toBe(true));
    bench.network.become({ state: 'ready' });
    expect(codeOf(await waiting)).toBe(0);
    expect(codeOf(await bench.call('ADD', 'b'))).toBe(0);
    expect(statSync(bench.socketPath).mode & 0o777).toBe(0o600);
    await bench.stop();
    expect(existsSync(bench.socketPath)).toBe(false);
  });
});
