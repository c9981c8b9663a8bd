import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { exampleNode, examplePods } from '../support/example-node.ts';
import { type Counts, clusterIpOf, ShareBench, serviceOf } from '../support/share-bench.ts';
import { trace } from '../support/trace.ts';
import { Unixctl } from '../support/unixctl.ts';

const [pod] = examplePods as [(typeof examplePods)[number]];

const sizes = [1, 3, 9, 65, 257] as const;
const sticky = 12;

function spread(counts: Counts): number {
  const all = Object.values(counts);
  return Math.max(...all) / Math.min(...all);
}

describe('real connections', () => {
  let bench: ShareBench;
  const to = (count: number) => ({ ip: clusterIpOf(count), port: 80 });
  beforeAll(async () => {
    const more = { affinitySeconds: 600 };
    const all = [...sizes, 2, 33, 64];
    bench = await ShareBench.start([...all.map((count) => serviceOf(count, 'TCP')), serviceOf(sticky, 'TCP', more)]);
  });
  afterAll(async () => bench.stop());

  it.each([
    [1, 50],
    [3, 2_000],
    [9, 6_000],
    [65, 1_500],
    // Some have but one slot of 512: with 5,000 connections one of them would be missed once in 1,500 times.
    [257, 8_000],
  ] as const)('reach every one of %i endpoints', async (size, connections) => {
    await bench.open('tcp', to(size), connections, 8);
    const counts = await bench.counts();
    expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(connections);
    expect(Object.keys(counts)).toHaveLength(size);
    // Tolerance for chance; with more endpoints it would take more connections than a test has time for.
    if (size <= 9) expect(spread(counts)).toBeLessThanOrEqual(1.3 + 4 / Math.sqrt(connections / size));
  });

  it.each([2, 3, 9, 33, 64])('find %i endpoints with shares that differ by less than a third', async (size) => {
    const control = await Unixctl.open(bench.ovs.runDir);
    const reached: Record<string, number> = {};
    const ports = { protocol: 'tcp', portSrc: 40_000, portDst: 80, tcpFlags: 'syn' } as const;
    const packet = {
      ethSrc: pod.mac,
      ethDst: exampleNode.gateway.mac,
      payload: 'ipv4',
      ipSrc: parseIp('10.10.0.5'),
      ipDst: parseIp(clusterIpOf(size)),
      ttl: 64,
      ...ports,
    } as const;
    for (let dpHash = 1; dpHash <= 256; dpHash++) {
      const { text } = await trace(control, { inPort: pod.ofPort, packet }, { states: [], ctMark: 0, dpHash });
      for (const [, translation = ''] of text.matchAll(/nat\(dst=([^)]+)\)/g)) reached[translation] = (reached[translation] ?? 0) + 1;
    }
    control.close();
    expect(Object.keys(reached)).toHaveLength(size);
    expect(spread(reached)).toBeLessThanOrEqual(1.3);
  });

  it('cost the data path no flow each', async () => {
    await bench.open('tcp', to(9), 1_500, 8);
    const before = bench.cachedFlows();
    await bench.open('tcp', to(9), 1_500, 8);
    expect(bench.cachedFlows()).toBeLessThanOrEqual(before + 10);
  });

  it('of one client stay at the endpoint of its first, however many it opens at once', async () => {
    await bench.counts();
    await bench.open('tcp', to(sticky), 300, 16);
    const counts = Object.values(await bench.counts()).toSorted((a, b) => b - a);
    expect(counts[0]).toBeGreaterThanOrEqual(300 - 15);
    await bench.open('tcp', to(sticky), 100, 16);
    expect(Object.values(await bench.counts())).toEqual([100]);
  });
});

describe('a Service of 5,000 endpoints', () => {
  const size = 5_000;
  /** Three are enough on a quiet host; on a busy one most datagrams of a round may be lost. */
  const roundsMost = 100;
  /** One client has too few ports to reach all endpoints by one address: its endpoint depends on nothing else. */
  const externalIps = ['198.51.100.1', '198.51.100.2', '198.51.100.3', '198.51.100.4'];
  let bench: ShareBench;
  beforeAll(async () => {
    bench = await ShareBench.start([serviceOf(size, 'UDP', { externalIps })], size);
  });
  afterAll(async () => bench.stop());

  it('sends clients to every one of them', async () => {
    const reached = new Set<string>();
    for (let round = 0; round < roundsMost && reached.size < size; round++) {
      const ip = externalIps[round % externalIps.length] ?? '';
      await bench.open('udp', { ip, port: 80 }, 15_000, 16);
      for (const address of Object.keys(await bench.counts())) reached.add(address);
    }
    expect(reached.size).toBe(size);
  }, 180_000);
});
