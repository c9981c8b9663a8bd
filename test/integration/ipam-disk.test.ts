import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { Ipam } from '../../src/pods/ipam/ipam.ts';
import { FileJournalStore } from '../../src/pods/ipam/journal-store.ts';
import { poolOf } from '../support/cni-bench.ts';

/*
 * The journal on a real file system that fills up, turns read-only and recovers.
 */

const never = new AbortController().signal;
let folder: string;
let journal: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-ipam-'));
  journal = join(folder, 'state', 'ipam.journal');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
});

afterEach(() => {
  execFileSync('umount', ['--lazy', folder]); // a test that failed may have files open
  rmSync(folder, { recursive: true });
});

async function open(): Promise<Ipam> {
  const pools = ['10.1.0.0/22', 'fd00::/64'].map(poolOf);
  return await Ipam.open({ store: new FileJournalStore(journal), pools, bootId: 'b', isAbsent: async () => false, log: silentLog });
}

async function add(ipam: Ipam, id: string): Promise<string> {
  const { lease, durable } = await ipam.allocate({ network: 'n', containerId: id, ifName: 'eth0', netns: '/n', addresses: [] }, never);
  await durable;
  return lease.addresses.map(({ ip }) => ip.text).join();
}

const summary = (ipam: Ipam) =>
  ipam.leases().map(({ containerId, addresses, state }) => [containerId, state, ...addresses.map(({ ip }) => ip.text)]);

it('rejects leases while the disk is full, and allocates again when it is not', async () => {
  const ipam = await open();
  await add(ipam, 'before');
  writeFileSync(join(folder, 'ballast'), Buffer.alloc(48 * 1024));
  let allocated = 0;
  await expect(
    (async () => {
      for (; allocated < 1000; allocated++) await add(ipam, `during-${allocated}`);
    })(),
  ).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  expect(allocated).toBeGreaterThan(0);
  ipam.release({ network: 'n', containerId: 'before', ifName: 'eth0' });
  rmSync(join(folder, 'ballast'));
  const address = await add(ipam, 'after');
  expect(ipam.leases()).toHaveLength(allocated + 2);
  await ipam.close();
  const again = await open();
  expect(summary(again)).toEqual(summary(ipam));
  expect(
    again
      .leaseOf({ network: 'n', containerId: 'after', ifName: 'eth0' })
      ?.addresses.map(({ ip }) => ip.text)
      .join(),
  ).toBe(address);
  await again.close();
});

it('reads leases from a read-only disk, and allocates again when it can be written', async () => {
  const first = await open();
  await add(first, 'a');
  await first.close();
  execFileSync('mount', ['-o', 'remount,ro', folder]);
  const readOnly = await open();
  expect(summary(readOnly)).toEqual(summary(first));
  await expect(add(readOnly, 'b')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  execFileSync('mount', ['-o', 'remount,rw', folder]);
  expect(await add(readOnly, 'b')).toMatch(/^10\.1\.0\.\d+,fd00::/);
  expect(readOnly.leases()).toHaveLength(2);
  await readOnly.close();
});

it('belongs to one agent at a time, and to root', async () => {
  const ipam = await open();
  await add(ipam, 'a');
  await expect(open()).rejects.toMatchObject({ code: 'REFUSED' });
  expect(await add(ipam, 'b')).toContain('10.1.0.3');
  expect(statSync(journal).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, 'state')).mode & 0o777).toBe(0o700);
  await ipam.close();
  const next = await open();
  expect(next.leases()).toHaveLength(2);
  await next.close();
});

it('measures the cost of a durable lease', async () => {
  const onDisk = mkdtempSync('/var/tmp/seine-ipam-');
  try {
    journal = join(onDisk, 'ipam.journal');
    const ipam = await open();
    const times: number[] = [];
    for (let round = 0; round < 200; round++) {
      const startedMs = performance.now();
      await add(ipam, `c${round}`);
      times.push(performance.now() - startedMs);
    }
    const startedMs = performance.now();
    await Promise.all(Array.from({ length: 64 }, (_, index) => add(ipam, `p${index}`)));
    const togetherMs = performance.now() - startedMs;
    await ipam.close();
    const sorted = times.toSorted((a, b) => a - b);
    console.log(`IPAM lease: ${sorted[100]?.toFixed(2)} ms, p95 ${sorted[190]?.toFixed(2)} ms; 64 at once ${togetherMs.toFixed(2)} ms`);
  } finally {
    rmSync(onDisk, { recursive: true });
  }
});

it('begins a new journal if the folder was removed', async () => {
  const store = new FileJournalStore(journal);
  await store.load();
  await store.replace(Buffer.from('one\n'));
  rmSync(join(folder, 'state'), { recursive: true });
  await store.replace(Buffer.from('two\n'));
  store.append(Buffer.from('three\n'));
  await store.sync();
  expect(readFileSync(journal, 'utf8')).toBe('two\nthree\n');
  await store.close();
});

describe('a state folder that is deleted under an agent', () => {
  const removals: readonly (readonly [string, () => void])[] = [
    ['removed', () => rmSync(join(folder, 'state'), { recursive: true })],
    ['moved', () => renameSync(join(folder, 'state'), mkdtempSync(join(folder, 'elsewhere-')))],
    ['robbed of its lock', () => rmSync(`${journal}.lock`)],
    ['mounted over', () => execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=700', 'tmpfs', join(folder, 'state')])],
  ];

  it.each(removals)('is recreated with all leases, and still excludes a second agent: %s', async (_, take) => {
    const ipam = await open();
    await add(ipam, 'before');
    take();
    await add(ipam, 'after');
    await expect(open()).rejects.toMatchObject({ code: 'REFUSED' });
    take();
    const lease = ipam.leases()[0];
    if (lease) ipam.confirm(lease, { hostIfName: 'h', hostMac: lease.mac, mtu: 1_450 });
    await ipam.handedOver();
    await ipam.close();
    const next = await open();
    expect(summary(next)).toEqual(summary(ipam));
    expect(next.leases()[0]?.attached?.hostIfName).toBe('h');
    await next.close();
  });

  it('is recreated even without a new pod', async () => {
    const ipam = await open();
    await add(ipam, 'a');
    rmSync(join(folder, 'state'), { recursive: true });
    await ipam.retryJournal();
    expect(readFileSync(journal, 'utf8')).toContain('"a"');
    await expect(open()).rejects.toMatchObject({ code: 'REFUSED' });
    await ipam.close();
  });

  it.each(removals)(
    'belongs to another agent that comes first, and the previous one allocates no more until that one has ended: %s',
    async (_, take) => {
      const ipam = await open();
      await add(ipam, 'before');
      take();
      const other = await open();
      await add(other, 'of the other');
      await expect(add(ipam, 'after')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      await ipam.retryJournal();
      expect(ipam.failure).toBeDefined();
      await add(other, 'second of the other');
      const held = summary(other);
      await other.close();
      const next = await open();
      expect(summary(next)).toEqual(held);
      await next.close();
      await ipam.close();
    },
  );

  it('belongs to one agent in the end, however often it was deleted while two wrote', async () => {
    const [one, two] = [new FileJournalStore(journal), new FileJournalStore(journal)];
    const write = async (store: FileJournalStore, turns: number) => {
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      await store.replace(Buffer.from('x\n'));
    };
    for (let round = 0; round < 60; round++) {
      const ended = Promise.allSettled([write(one, round % 2), write(two, round % 3)]);
      for (let turn = 0; turn < round % 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      rmSync(join(folder, 'state'), { recursive: true, force: true });
      await ended;
      const [first, second] = await Promise.allSettled([write(one, 0), write(two, 0)]);
      expect([first.status, second.status].toSorted()).toEqual(['fulfilled', 'rejected']);
      expect([one.isInPlace(), two.isInPlace()]).toEqual([first.status === 'fulfilled', second.status === 'fulfilled']);
      if (round % 3 === 0) await Promise.all([one.close(), two.close()]);
    }
    await Promise.all([one.close(), two.close()]);
  });
});
