import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleProxying } from '../support/example-node.ts';
import { sceneService } from '../support/scene-service.ts';
import { ShareBench } from '../support/share-bench.ts';
import { datapath, patienceMs } from '../support/test-cluster.ts';

/**
 * Connections that reuse the port of an earlier one, with buckets that translate and without. On the userspace data path of Open vSwitch
 * 3.1.0 conntrack fails here in ways that the kernel's does not; both must work.
 */
const slow = datapath === 'system' ? 10 : 1;
const limitMs = 1_500 * slow;
const service = '10.96.1.101';
const endpoint = '10.20.0.0';
/** A load balancer's address that equals an endpoint's, the only one and one of two. */
const [itself, oneOfTwo] = ['10.20.0.9', '10.20.0.8'];
const balancer = (ip: string, port: number, more: readonly string[] = []) => ({
  protocol: 'TCP' as const,
  port,
  endpoints: [`${ip} 8080`, ...more],
  more: { type: 'LoadBalancer' as const, loadBalancerIngress: [{ ip, ipMode: 'VIP' as const }] },
});

describe.each([
  ['buckets that translate', true],
  ['a flow for each endpoint', false],
] as const)('with %s', (_, bucketTranslation) => {
  let bench: ShareBench;
  const dead = (on: boolean) =>
    bench.ovs.exec(
      'nft',
      ...(on ? ['add', 'rule', 'ip', 'silent', 'in', 'tcp', 'dport', '8080', 'drop'] : ['flush', 'chain', 'ip', 'silent', 'in']),
    );
  const log = () => readFileSync(join(bench.ovs.runDir, 'ovs-vswitchd.log'), 'utf8');

  beforeAll(async () => {
    const proxying = { ...exampleProxying, config: { ...exampleProxying.config, bucketTranslation } };
    bench = await ShareBench.start(
      [
        sceneService({ name: 'web', protocol: 'TCP', clusterIp: service, port: 80, endpoints: [`${endpoint} 8080`] }),
        sceneService({ name: 'itself', clusterIp: '10.96.1.102', ...balancer(itself, 8080) }),
        sceneService({ name: 'one-of-two', clusterIp: '10.96.1.103', ...balancer(oneOfTwo, 8080, ['10.20.0.7 8080']) }),
        sceneService({
          name: 'remembered',
          clusterIp: '10.96.1.104',
          ...balancer('10.20.0.6', 8080),
          more: { ...balancer('10.20.0.6', 8080).more, affinitySeconds: 600 },
        }),
      ],
      0,
      proxying,
    );
    bench.ovs.exec('nft', 'add table ip silent; add chain ip silent in { type filter hook input priority 0; }');
  }, patienceMs);
  afterAll(async () => bench.stop());

  it.each([itself, oneOfTwo, '10.20.0.6'])(
    'OVS survives clients that reconnect to %s, which is an endpoint and its Service’s address',
    async (ip) => {
      for (let turn = 0; turn < 3; turn++) expect(await bench.connect(ip, 8080, 30_001, limitMs)).toMatch(/^ok/);
      expect(log()).not.toMatch(/EMER|assertion/);
    },
  );

  it(
    'a client that gave up is answered when it reconnects with other numbers, if the server sends first',
    async () => {
      for (let turn = 0; turn < 10; turn++) {
        const port = 31_001 + 2 * turn;
        dead(true);
        expect(await bench.connect(service, 80, port, 300)).toBe('no connection');
        dead(false);
        expect(await bench.connect(service, 80, port, limitMs)).toMatch(/^ok/);
      }
    },
    60_000 * slow,
  );

  it('a connection to the Service ends none to its endpoint from the same port', async () => {
    const end = await bench.keep(endpoint, 8080, 32_001, limitMs);
    expect(await bench.connect(service, 80, 32_001, limitMs)).toMatch(/^ok/);
    expect(await end()).toBe('kept');
  });

  // docs/limits.md: the remedy for the userspace data path of Open vSwitch 3.1.0 would be worse.
  it('of two connections from one port, to the Service and then to its endpoint, one fails: the first, or the second on the kernel’s data path', async () => {
    const end = await bench.keep(service, 80, 32_011, limitMs);
    const direct = await bench.connect(endpoint, 8080, 32_011, limitMs);
    expect([direct.startsWith('ok'), await end()]).toEqual(datapath === 'system' ? [false, 'kept'] : [true, 'lost']);
  });

  it('a reset of a packet that reached the client untranslated is not a connection, and takes no answer of the one to the Service', async () => {
    bench.reset(endpoint, 8080, 32_021);
    expect(bench.tracked(32_021)).toEqual([]);
    expect(await bench.connect(service, 80, 32_021, limitMs)).toMatch(/^ok/);
    expect(bench.tracked(32_021)).not.toEqual([]);
  });

  it('a packet that cannot be translated is tried twice more, and dropped', async () => {
    if (datapath === 'system') return expect(retries()).toEqual([0, 0, 0]);
    bench.ovs.exec('ovs-appctl', 'dpctl/flush-conntrack');
    bench.ovs.exec('ovs-appctl', 'dpctl/ct-set-limits', 'zone=65520,limit=1');
    const end = await bench.keep(endpoint, 8080, 33_001, limitMs);
    expect(await bench.connect(service, 80, 33_003, 500)).toBe('no connection');
    expect(await end()).toBe('kept');
    bench.ovs.exec('ovs-appctl', 'dpctl/ct-del-limits', 'zone=65520');
    expect(retries()).toEqual([1, 1, 1]);
    expect(await bench.connect(service, 80, 33_005, limitMs)).toMatch(/^ok/);
  });

  /** Packets for each try, of IPv4. */
  function retries(): number[] {
    const flows = bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=36,ip');
    return [0, 0x400_0000, 0x800_0000].map((tries) => {
      const lines = flows.split('\n').filter((text) => text.includes(`reg4=0x${(tries + 0x2_0000).toString(16)}/0xc070000`));
      return lines.reduce((sum, line) => sum + Number(/n_packets=(\d+)/.exec(line)?.[1]), 0);
    });
  }
});
