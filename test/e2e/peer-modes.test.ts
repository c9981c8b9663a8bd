import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { addressing, type TrafficMode } from '../../lab/plan/plan.ts';
import { DatagramStream } from '../../lab/probe/datagram-stream.ts';
import { ask } from '../../lab/probe/probe.ts';
import { cidrOf, type Family, parseIp } from '../../src/base/net/ip.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { networkPolicy } from '../support/guarded-lab.ts';
import { slowness } from '../support/test-datapath.ts';

const families = ['ipv4', 'ipv6'] as const;
const keyword = { ipv4: 'ip', ipv6: 'ip6' } as const;

/** Nodes 1 and 3 are in one subnet, node 2 in another; a router is between the two. */
/** Datagrams that one stream may lose over four changes of a mode: fewer than in half a second. */
const lostMax = 50;

describe('nodes in hybrid mode', () => {
  let lab: ConvergeLab;
  const streams: DatagramStream[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(3, undefined, { mode: 'hybrid', subnets: 2 });
    await lab.startPods();
    await untilDirect(1, 3);
    await untilDirect(3, 1);
  });
  afterEach(() => {
    for (const stream of streams.splice(0)) stream.close();
  });
  afterAll(async () => await lab?.remove());

  const ipOf = (pod: string, family: Family): string => lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';
  const networkOf = (node: number, family: Family): string =>
    cidrOf(parseIp(ipOf(`web-${node}`, family)), addressing.nodeMask[family]).text;

  /** Interface by which a node routes to the pods of another. */
  async function deviceTo(from: number, to: number, family: Family): Promise<string> {
    const route = await lab.exec(from, 'ip', family === 'ipv6' ? '-6' : '-4', 'route', 'get', ipOf(`web-${to}`, family));
    return /dev (\S+)/.exec(route)?.[1] ?? '';
  }

  async function untilSent(from: number, to: number, device: string, withinMs = 60_000): Promise<void> {
    for (const family of families)
      await until(
        async () => (await deviceTo(from, to, family)) === device,
        withinMs,
        () => `node ${from} does not reach the pods of node ${to} by ${device} (${family})`,
      );
  }

  const untilDirect = (from: number, to: number): Promise<void> => untilSent(from, to, transportInterface(lab.plan));
  const untilTunnelled = (from: number, to: number): Promise<void> => untilSent(from, to, 'antrea-gw0');

  /** Configures a mode on a node, and restarts its agent. */
  async function change(node: number, mode: TrafficMode): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(node).name);
    writeFileSync(agentConfig, readFileSync(agentConfig, 'utf8').replace(/^trafficEncapMode: .*$/m, `trafficEncapMode: ${mode}`));
    await lab.agent(node, 'stop');
    await lab.agent(node, 'start');
    await lab.untilReady(node);
  }

  /** Counts packets of a pod that reach a node without a tunnel while `work` runs. */
  async function plainPackets(node: number, pod: string, work: () => Promise<void>): Promise<number> {
    const device = transportInterface(lab.plan);
    const rules = families.map((family) => `iifname "${device}" ${keyword[family]} saddr ${ipOf(pod, family)} counter name plain`);
    const chain = `chain watched { type filter hook prerouting priority -400; ${rules.join('; ')}; };`;
    await lab.exec(node, 'nft', `add table inet probe { counter plain { }; ${chain} }`);
    await work();
    const listing = await lab.exec(node, 'nft', 'list', 'counter', 'inet', 'probe', 'plain');
    await lab.exec(node, 'nft', 'delete', 'table', 'inet', 'probe');
    return Number(/packets (\d+)/.exec(listing)?.[1]);
  }

  /** Datagrams in both directions between nodes 1 and 3, of pods and of processes of the nodes. */
  async function startStreams(): Promise<void> {
    const ends = families.flatMap((family) => [
      { from: lab.pod('client-1').netns, address: ipOf('web-3', family) },
      { from: lab.pod('client-3').netns, address: ipOf('web-1', family) },
      { from: lab.node(1).netns, address: ipOf('web-3', family) },
      { from: lab.node(3).netns, address: ipOf('web-1', family) },
    ]);
    for (const end of ends) streams.push(await DatagramStream.start({ ...end, port: 80, everyMs: 10 }));
    await untilAnswered();
  }

  async function untilAnswered(): Promise<void> {
    for (const [at, stream] of streams.entries())
      await until(
        () => stream.isAnswered,
        20_000,
        () => `stream ${at} is not answered`,
      );
  }

  /** Ends the streams, and returns how many datagrams of each had no answer. */
  async function lost(): Promise<readonly number[]> {
    for (const stream of streams) stream.stop();
    const missing = (): readonly number[] => streams.map(({ sent, answered }) => sent - answered);
    await until(
      () => missing().every((count) => count === 0),
      5_000,
      () => '',
    ).catch(() => undefined);
    return missing();
  }

  it('send to peers on their link without a tunnel, and to others through it', async () => {
    const reach = (to: string) => () => lab.untilReached(lab.pod('client-1'), lab.pod(to)).then(() => undefined);
    expect(await plainPackets(3, 'client-1', reach('web-3'))).toBeGreaterThan(0);
    expect(await plainPackets(2, 'client-1', reach('web-2'))).toBe(0);
    for (const family of families) expect(await deviceTo(1, 2, family)).toBe('antrea-gw0');
    const modes = await lab.metrics(1);
    for (const family of families)
      expect(['direct', 'tunnel'].map((mode) => modes.get(`peer_modes{mode="${mode}",family="${family}"}`))).toEqual([1, 1]);
  });

  it('enforce policies by the addresses of pods, on both ways', async () => {
    const spec = {
      podSelector: { matchLabels: { app: 'web' } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }],
    };
    const { collection, object } = networkPolicy('demo', 'clients-only', spec);
    await lab.api.send({ method: 'POST', path: collection, body: object }, AbortSignal.timeout(10_000));
    const isReached = async (from: string): Promise<boolean> =>
      (await Promise.all(lab.pod('web-3').ips.map((ip) => lab.reach(lab.pod(from), ip)))).some(({ is }) => is === 'OK');
    for (const other of ['web-1', 'web-2'])
      await until(
        async () => !(await isReached(other)),
        20_000,
        () => `${other} reaches web-3`,
      );
    for (const client of ['client-1', 'client-2']) await lab.untilReached(lab.pod(client), lab.pod('web-3'));
    for (const address of lab.pod('web-3').ips)
      expect(await ask({ from: lab.node(1).netns, protocol: 'tcp', address, port: 80, timeoutMs: 5_000 * slowness })).toMatchObject({
        is: 'TIMEOUT',
      });
    await lab.api.send({ method: 'DELETE', path: `${collection}/clients-only` }, AbortSignal.timeout(10_000));
    await lab.untilReached(lab.pod('web-1'), lab.pod('web-3'));
  });

  it('continue after a restart of an agent without a write', async () => {
    await startStreams();
    const before = (await lab.flows(1)).map(({ text }) => text);
    await lab.agent(1, 'kill');
    const killedMs = performance.now();
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await until(
      async () => (await lab.metrics(1)).get('peer_modes{mode="direct",family="ipv4"}') === 1,
      20_000,
      () => 'node 1 does not send directly',
    );
    const after = await lab.flows(1);
    const sinceMs = performance.now() - killedMs;
    expect(after.map(({ text }) => text)).toEqual(before);
    expect(after.filter(({ ageMs }) => ageMs < sinceMs - 1_000).map(({ text }) => text)).toEqual([]);
    const written = [...(await lab.metrics(1))].filter(([name]) => name.startsWith('reconcile_entries_total{part="host"'));
    expect(written.filter(([, count]) => count > 0)).toEqual([]);
    expect(await lost()).toEqual(streams.map(() => 0));
  });

  it('restore a deleted route', async () => {
    await lab.exec(1, 'ip', 'route', 'del', networkOf(3, 'ipv4'));
    await lab.exec(1, 'ip', '-6', 'route', 'del', networkOf(3, 'ipv6'));
    await untilDirect(1, 3);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-3'));
  });

  it('change to the tunnel and back, one after the other, without an interruption', async () => {
    await startStreams();
    await change(3, 'encap');
    await untilTunnelled(3, 1);
    await untilTunnelled(1, 3);
    await change(1, 'encap');
    await untilTunnelled(1, 3);
    await change(1, 'hybrid');
    await change(3, 'hybrid');
    await untilDirect(1, 3);
    await untilDirect(3, 1);
    // None is lost on a quiet host. On a loaded one up to five were, by a cause that is not known yet.
    expect(Math.max(...(await lost()))).toBeLessThanOrEqual(lostMax);
  });

  it('return to the tunnel when the network drops packets with pods’ addresses', async () => {
    const device = transportInterface(lab.plan);
    // Replies to node 3's own echoes pass: otherwise it is chance which of the two nodes is the first to lose three.
    const replies = { ipv4: 'icmp type echo-reply', ipv6: 'icmpv6 type echo-reply' };
    const rules = families.flatMap((family) => {
      const from = `iifname "${device}" ${keyword[family]} saddr ${networkOf(1, family)}`;
      return [`${from} ${replies[family]} accept`, `${from} drop`];
    });
    await lab.exec(3, 'nft', `add table inet probe { chain faulty { type filter hook prerouting priority -400; ${rules.join('; ')}; }; }`);
    await untilTunnelled(1, 3);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-3'));
    for (const family of families) expect(await deviceTo(3, 1, family)).toBe(device);
    await lab.exec(3, 'nft', 'delete', 'table', 'inet', 'probe');
  });
});
