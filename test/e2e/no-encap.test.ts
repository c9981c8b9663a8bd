import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inNetns } from '../../lab/machine/netns.ts';
import { transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { TrafficMode } from '../../lab/plan/plan.ts';
import { type Outcome, upload } from '../../lab/probe/probe.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import { networkPolicy } from '../support/guarded-lab.ts';
import { eventually, families, ServiceLab, silent } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { traceInLab } from '../support/traced-lab.ts';

const gateway = 'antrea-gw0';
const keyword = { ipv4: 'ip', ipv6: 'ip6' } as const;
const patienceMs = 60_000;
const everywhere = ['client-1', 'client-2', 'node-1', 'node-3'];
const transferBytes = 1_000_000;

/** Three nodes that exchange packets of pods without a tunnel, over a network that carries them. */
describe('nodes in noEncap mode', () => {
  let services: ServiceLab;
  let lab: ConvergeLab;
  let link: string;

  beforeAll(async () => {
    services = await ServiceLab.start([], { mode: 'noEncap' });
    ({ lab } = services);
    link = transportInterface(lab.plan);
  }, 180_000 * slowness);
  afterAll(async () => await services?.remove());

  const mtuOf = async (pod: string): Promise<number> =>
    Number(/ mtu (\d+)/.exec(await lab.exec(1, 'nsenter', `--net=/run/netns/${lab.pod(pod).netns}`, 'ip', 'link', 'show', 'eth0'))?.[1]);
  const networkMtu = async (): Promise<number> => Number(/ mtu (\d+)/.exec(await lab.exec(1, 'ip', 'link', 'show', link))?.[1]);

  async function untilMtu(wanted: number, ...pods: readonly string[]): Promise<void> {
    let found: readonly number[] = [];
    await until(
      async () => {
        found = await Promise.all(pods.map(mtuOf));
        return found.every((mtu) => mtu === wanted);
      },
      patienceMs,
      () => `${pods} have an MTU of ${found}, not ${wanted}`,
    );
  }

  async function untilSent(from: 1 | 3, to: 1 | 3, device: string): Promise<void> {
    for (const family of families)
      await until(
        async () => (await lab.exec(from, 'ip', 'route', 'get', services.ip(`web-${to}`, family))).includes(`dev ${device} `),
        patienceMs,
        () => `node ${from} does not reach the pods of node ${to} by ${device} (${family})`,
      );
  }

  async function change(node: number, mode: TrafficMode): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(node).name);
    writeFileSync(agentConfig, readFileSync(agentConfig, 'utf8').replace(/^trafficEncapMode: .*$/m, `trafficEncapMode: ${mode}`));
    await lab.agent(node, 'stop');
    await lab.agent(node, 'start');
    await lab.untilReady(node);
  }

  /** Packets of a pod that reach node 2 over the link while `work` runs, and packets of the tunnel. */
  async function packetsOf(pod: string, work: () => Promise<void>): Promise<{ readonly plain: number; readonly tunnelled: number }> {
    const rules = families.map((family) => `iifname "${link}" ${keyword[family]} saddr ${services.ip(pod, family)} counter name plain`);
    const tunnel = `iifname "${link}" udp dport 6081 counter name tunnelled`;
    const chain = `chain watched { type filter hook prerouting priority -400; ${[...rules, tunnel].join('; ')}; };`;
    await lab.exec(2, 'nft', `add table inet probe { counter plain { }; counter tunnelled { }; ${chain} }`);
    await work();
    const count = async (name: string): Promise<number> =>
      Number(/packets (\d+)/.exec(await lab.exec(2, 'nft', 'list', 'counter', 'inet', 'probe', name))?.[1]);
    const counted = { plain: await count('plain'), tunnelled: await count('tunnelled') };
    await lab.exec(2, 'nft', 'delete', 'table', 'inet', 'probe');
    return counted;
  }

  /** Transfers from node 1 to node 3 and back, one after the other in each family, while `work` runs; each has to be complete. */
  async function transferring(work: () => Promise<void>): Promise<void> {
    let isGoing = true;
    const ways = families.flatMap((family) => [
      { from: services.place('client-1'), address: services.ip('web-3', family) },
      { from: services.place('client-3'), address: services.ip('web-1', family) },
    ]);
    const all = ways.map(async (way): Promise<readonly Outcome[]> => {
      const outcomes: Outcome[] = [];
      do outcomes.push(await upload({ ...way, protocol: 'tcp', port: 80, timeoutMs: patienceMs * slowness }, transferBytes));
      while (isGoing);
      return outcomes;
    });
    try {
      await work();
    } finally {
      isGoing = false;
    }
    const outcomes = (await Promise.all(all)).flat();
    expect(outcomes.filter(({ is }) => is !== 'OK')).toEqual([]);
    expect(outcomes.length).toBeGreaterThanOrEqual(ways.length);
  }

  it('send packets of pods without a tunnel, as long as the network carries', async () => {
    const whole = await networkMtu();
    await untilMtu(whole, 'client-1', 'web-2');
    const { plain, tunnelled } = await packetsOf('client-1', async () => {
      for (const family of families) {
        const aim = { from: services.place('client-1'), address: services.ip('web-2', family), port: 80, timeoutMs: patienceMs };
        expect(await upload({ ...aim, protocol: 'tcp' }, transferBytes)).toMatchObject({ is: 'OK' });
        expect(await upload({ ...aim, protocol: 'udp' }, whole - 100)).toMatchObject({ is: 'OK' });
      }
    });
    expect(plain).toBeGreaterThan((2 * transferBytes) / whole);
    expect(tunnelled).toBe(0);
    for (const family of families)
      expect(await services.look({ from: 'client-1', address: services.ip('web-2', family), port: 80 })).toMatchObject({
        pods: ['web-2'],
        clients: [services.ip('client-1', family)],
      });
  });

  it('serve Services: from pods, nodes and outside, with endpoints on each node', async () => {
    const service = await services.service(services.name('direct'), { type: 'NodePort', selector: { app: 'web' } });
    const pods = ['web-1', 'web-2', 'web-3'];
    await services.seesEverywhere(service, everywhere, { pods, failures: [] }, { tries: 30 });
    await services.allSee(services.nodeAims(service, 'external', 'node-2'), { pods, failures: [] }, { tries: 30 });
    for (const address of service.spec.clusterIPs ?? []) {
      const family = address.includes(':') ? 'ipv6' : 'ipv4';
      expect(await services.look({ from: 'client-1', address, port: 80, tries: 10 })).toMatchObject({
        clients: [services.ip('client-1', family)],
      });
    }
    await services.delete('services', service.metadata.name);
  });

  it.each(['demo/client-1', 'node:node-1'])('trace packets from %s on both nodes, with a probe behind each kernel', async (from) => {
    const { traces, lines, exitCode } = await traceInLab(lab, 1, { from, to: 'demo/web-2', port: '80' }, { probe: true });
    const passed = traces.map(({ probe, paths }) => [probe?.verdict, probe?.ends.map(({ node }) => node), paths[0]?.bridge]);
    expect([passed, lines]).toEqual([traces.map(() => ['allowed', ['node-1', 'node-2'], 'allowed']), expect.any(String)]);
    expect(lines).toContain('between node-1 and node-2 their kernels carry the packets, which no probe tests');
    expect(exitCode).toBe(0);
  });

  it('enforce policies by the addresses of pods, straight and through a Service', async () => {
    const service = await services.service(services.name('guarded'), { selector: { app: 'web' } });
    const allowed = { ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }] };
    const spec = { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress'], ...allowed };
    const { collection, object } = networkPolicy('demo', 'clients-only', spec);
    const signal = () => AbortSignal.timeout(10_000 * slowness);
    await lab.api.send({ method: 'POST', path: collection, body: object }, signal());
    const straight = families.map((family) => ({ address: services.ip('web-2', family), port: 80 }));
    const through = (service.spec.clusterIPs ?? []).map((address) => ({ address, port: 80 }));
    for (const protocol of ['tcp', 'udp'] as const)
      for (const aim of [...straight, ...through]) {
        for (const from of ['client-1', 'client-3']) await services.sees({ ...aim, from, protocol }, { failures: [] });
        await eventually(async () => {
          const seen = await services.look({ ...aim, from: 'web-3', protocol, ...silent });
          // A pod reaches itself through a Service.
          expect(seen.pods.filter((pod) => pod !== 'web-3')).toEqual([]);
        });
      }
    for (const aim of straight) expect(await services.look({ ...aim, from: 'node-1', ...silent })).toMatchObject({ pods: [] });
    await lab.api.send({ method: 'DELETE', path: `${collection}/clients-only` }, signal());
    for (const aim of straight) await services.sees({ ...aim, from: 'web-3' }, { pods: ['web-2'], failures: [] });
    await services.delete('services', service.metadata.name);
  });

  it('give pods at both ends the MTU of the tunnel before it is used, and the whole one after, under transfers', {
    timeout: 600_000,
  }, async () => {
    const whole = await networkMtu();
    await untilMtu(whole, 'client-1', 'web-3');
    const toTunnel = await eventsOn(lab, 1, async () => {
      await transferring(async () => {
        await change(3, 'encap');
        await untilSent(3, 1, gateway);
        await untilSent(1, 3, gateway);
      });
    });
    const tunnelMtu = await mtuOf('client-1');
    expect(tunnelMtu).toBeLessThan(whole);
    await untilMtu(tunnelMtu, 'client-1', 'web-1', 'client-3', 'web-3');
    const resized = toTunnel.findIndex((line) => line.includes(`${gateway}:`) && line.includes(`mtu ${tunnelMtu} `));
    const sent = toTunnel.findIndex((line) => isRouteBy(line, gateway));
    expect([resized >= 0, sent >= 0, resized < sent], toTunnel.join('\n')).toEqual([true, true, true]);

    const toDirect = await eventsOn(lab, 1, async () => {
      await transferring(async () => {
        await change(3, 'noEncap');
        await untilSent(1, 3, link);
        await untilSent(3, 1, link);
        await untilMtu(whole, 'client-1', 'web-1', 'client-3', 'web-3');
      });
    });
    const grown = toDirect.findIndex((line) => line.includes(`${gateway}:`) && line.includes(`mtu ${whole} `));
    const direct = toDirect.findIndex((line) => isRouteBy(line, link));
    expect([grown >= 0, direct >= 0, direct < grown], toDirect.join('\n')).toEqual([true, true, true]);
  });
});

/** Reports whether ip(8) announces a route to a peer by an interface. */
function isRouteBy(line: string, device: string): boolean {
  return !line.startsWith('Deleted') && / via /.test(line) && line.includes(` dev ${device} `);
}

/** Route that no other program sets. */
const probe = '192.0.2.92/32';

/** Changes of links and routes in the namespace of a node while `work` runs, in their order, as ip(8) reports them. */
async function eventsOn(lab: ConvergeLab, number: number, work: () => Promise<void>): Promise<readonly string[]> {
  const { command, args } = inNetns(lab.node(number).netns, 'ip', ['-o', 'monitor', 'link', 'route']);
  const monitor: ChildProcess = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  let text = '';
  monitor.stdout?.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  try {
    // It has begun once it reports a change that this test makes. The kernel does not report a route that replaces an equal one.
    await until(
      async () => {
        await lab.exec(number, 'ip', 'route', 'add', 'blackhole', probe);
        await lab.exec(number, 'ip', 'route', 'del', 'blackhole', probe);
        return text.includes('192.0.2.92');
      },
      patienceMs,
      () => 'ip monitor reports nothing',
    );
    await work();
    return text.split('\n').filter((line) => !line.includes('192.0.2.92'));
  } finally {
    monitor.kill();
    await once(monitor, 'exit');
  }
}
