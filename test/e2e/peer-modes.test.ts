import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { addressing, type TrafficMode } from '../../lab/plan/plan.ts';
import { ask } from '../../lab/probe/probe.ts';
import { cidrOf, type Family, parseIp } from '../../src/base/net/ip.ts';
import { type Route, servicePort, Traffic } from '../reliability/traffic.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import { networkPolicy } from '../support/guarded-lab.ts';
import { protocols, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { echo, type StreamCount, UdpStream } from '../support/udp-stream.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

const families = ['ipv4', 'ipv6'] as const;
const keyword = { ipv4: 'ip', ipv6: 'ip6' } as const;

const echoPort = 7_100;
/** Interval between two packets of a stream (ms). */
const everyMs = 10;

/** Datagrams that are sent while all modes change; 0: there is no such test. */
const packetsWanted = Number(process.env['SEINE_TEST_MODE_PACKETS'] ?? '0');
const changesTimeoutMs = 1_800_000;
/** 500 datagrams and messages of each sender in each family: 1,000 datagrams per second of pods, and of nodes, in each direction. */
const rates = { messages: 500, connects: 10 };
/** A client whose SYN or its answer was lost sends it again after this time (ms). RFC 6298 section 2.1. */
const synAgainMs = 1_000;
/** Rates of the same through Services, each with one endpoint on another node. */
const serviceRates = { messages: 50, connects: 5 };
const nodePorts = { 1: 30_701, 3: 30_703 } as const;
/** Packets that one stream may lose over four changes of a mode: fewer than in half a second. On a quiet host it is none. */
const lostMax = 50;

/** Nodes 1 and 3 are in one subnet, node 2 in another; a router is between the two. */
describe('nodes in hybrid mode', () => {
  let lab: ConvergeLab;
  let services: ServiceLab;
  const streams: UdpStream[] = [];
  const ends: (() => void)[] = [];

  beforeAll(async () => {
    services = await ServiceLab.start([], { mode: 'hybrid', subnets: 2 });
    lab = services.lab;
    await untilDirect(1, 3);
    await untilDirect(3, 1);
    ends.push(setUrgency(process.pid, urgent));
    for (const pid of await lab.switchPids()) setUrgency(pid, urgent);
    for (const node of [1, 3])
      for (const family of families) ends.push(await echo(lab.pod(`web-${node}`).netns, ipOf(`web-${node}`, family), echoPort));
  });
  afterEach(async () => {
    await lost();
  });
  afterAll(async () => {
    for (const end of ends.toReversed()) end();
    await services?.remove();
  });

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

  /** Changes of modes so far, with their times (ms of `performance.now()`). */
  const changes: { readonly text: string; readonly atMs: number }[] = [];

  /** Configures a mode on a node, and restarts its agent. */
  async function change(node: number, mode: TrafficMode): Promise<void> {
    changes.push({ text: `node ${node} to ${mode}`, atMs: performance.now() });
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(node).name);
    writeFileSync(agentConfig, readFileSync(agentConfig, 'utf8').replace(/^trafficEncapMode: .*$/m, `trafficEncapMode: ${mode}`));
    await lab.agent(node, 'stop');
    await lab.agent(node, 'start');
    await lab.untilReady(node);
  }

  /** Sets the MTU of the tunnel: Open vSwitch reopens the gateway's interface when its MTU changes, and loses packets meanwhile. */
  async function fixMtu(node: number): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(node).name);
    const mtu = /mtu (\d+)/.exec(await lab.exec(node, 'ip', 'link', 'show', 'antrea-gw0'))?.[1];
    writeFileSync(agentConfig, `${readFileSync(agentConfig, 'utf8').trimEnd()}\ndefaultMTU: ${mtu}\n`);
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

  async function startStreams(): Promise<void> {
    for (const { from, addresses } of routes())
      for (const address of addresses) streams.push(await UdpStream.start(from.netns, address, echoPort, everyMs));
    await until(
      () => streams.every(({ answered }) => answered > 15),
      20_000,
      () => `answers of the streams: ${streams.map(({ answered }) => answered)}`,
    );
  }

  /** Paths between nodes 1 and 3 in both directions, of pods and of processes of the nodes. */
  const routes = () =>
    [
      { name: 'client-1', from: lab.pod('client-1'), to: 'web-3' },
      { name: 'client-3', from: lab.pod('client-3'), to: 'web-1' },
      { name: 'node 1', from: lab.node(1), to: 'web-3' },
      { name: 'node 3', from: lab.node(3), to: 'web-1' },
    ].map(({ name, from, to }) => ({ name: `${name} to ${to}`, from, addresses: lab.pod(to).ips, service: false }));

  /** Ends the streams. */
  const lost = async (): Promise<readonly StreamCount[]> => await Promise.all(streams.splice(0).map((stream) => stream.stop()));

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
    const { netns: from } = lab.node(1);
    const asked = lab.pod('web-3').ips.map((address) => ask({ from, protocol: 'tcp', address, port: 80, timeoutMs: 5_000 * slowness }));
    for (const outcome of await Promise.all(asked)) expect(outcome).toMatchObject({ is: 'TIMEOUT' });
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
    expect((await lost()).filter((count) => count.lost > 0)).toEqual([]);
  });

  it('end no connection when agents restart', async () => {
    const traffic = await Traffic.start([lab.pod('web-1'), lab.pod('web-3')], routes(), rates);
    for (let restart = 0; restart < 4; restart++) {
      const node = restart % 2 === 0 ? 1 : 3;
      await lab.agent(node, 'kill');
      await lab.agent(node, 'start');
      await lab.untilReady(node);
    }
    expect(await traffic.stop()).toMatchObject({ broken: 0 });
  });

  it('restore a deleted route', async () => {
    await lab.exec(1, 'ip', 'route', 'del', networkOf(3, 'ipv4'));
    await lab.exec(1, 'ip', '-6', 'route', 'del', networkOf(3, 'ipv6'));
    await untilDirect(1, 3);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-3'));
  });

  const toTunnel = async (): Promise<void> => {
    await change(3, 'encap');
    await untilTunnelled(3, 1);
    await untilTunnelled(1, 3);
    await change(1, 'encap');
    await untilTunnelled(1, 3);
  };
  const toDirect = async (mode: 'hybrid' | 'noEncap'): Promise<void> => {
    await change(1, mode);
    await change(3, mode);
    await untilDirect(1, 3);
    await untilDirect(3, 1);
  };

  it('change to the tunnel and back, one after the other, without an interruption', async () => {
    await startStreams();
    await toTunnel();
    await toDirect('hybrid');
    const counts = await lost();
    expect(Math.max(...counts.map((count) => count.lost)), summary(counts)).toBeLessThanOrEqual(lostMax);
  });

  let started: ReturnType<typeof startServices> | undefined;
  const clusterAddresses = () => (started ??= startServices());

  /** Services whose only endpoints are `web-1` and `web-3`: their cluster addresses, by the node of the endpoint. */
  async function startServices(): Promise<Readonly<Record<1 | 3, readonly string[]>>> {
    const start = async (node: 1 | 3): Promise<readonly string[]> => {
      const pod = `web-${node}`;
      const ports = protocols.map((name) => ({ name, port: servicePort, protocol: name.toUpperCase(), nodePort: nodePorts[node] }));
      const { spec } = await services.service(pod, { type: 'NodePort', ports });
      await services.endpoints(pod, [{ pod }], { port: servicePort });
      return spec.clusterIPs ?? [];
    };
    return { 1: await start(1), 3: await start(3) };
  }

  /** Paths from each of the nodes 1 and 3 to the Service of the other: of pods, of the node's processes, and of clients outside the cluster. */
  function serviceRoutes(clusterIPs: Readonly<Record<1 | 3, readonly string[]>>): readonly Route[] {
    return ([1, 3] as const).flatMap((node): readonly Route[] => {
      const other = node === 1 ? 3 : 1;
      const byNodePort = { addresses: lab.node(node).ips, service: true, port: nodePorts[other] };
      const [pod, process, external] = [lab.pod(`client-${node}`), lab.node(node), lab.plan.external];
      return [
        { name: `client-${node} by node port`, from: pod, ...byNodePort },
        { name: `outside by node port of node ${node}`, from: external, ...byNodePort },
        { name: `client-${node} by Service`, from: pod, addresses: clusterIPs[other], service: true },
        { name: `node ${node} by Service`, from: process, addresses: clusterIPs[other], service: true },
      ];
    });
  }

  /** Entries of connections to a new Service's addresses are deleted 600 ms after its flows are there: of connections that began before, too. */
  async function untilServed(ways: readonly Route[]): Promise<void> {
    const traffic = await Traffic.start([], ways, serviceRates);
    const startMs = performance.now();
    const lastSecond = () => traffic.between('udp', performance.now() - 1_500, performance.now() - 500, Infinity);
    await until(
      () => performance.now() - startMs > 1_500 && lastSecond().lost === 0,
      20_000,
      () => `${lastSecond().lost} of ${lastSecond().sent} datagrams to new Services are lost`,
    );
    await traffic.stop();
  }

  if (packetsWanted > 0)
    it(`lose none of ${packetsWanted} datagrams and no connection while all modes change`, { timeout: changesTimeoutMs }, async () => {
      for (const node of [1, 3]) await fixMtu(node);
      const traffic = await Traffic.start([lab.pod('web-1'), lab.pod('web-3')], routes(), rates);
      const serviceWays = serviceRoutes(await clusterAddresses());
      await untilServed(serviceWays);
      const throughServices = await Traffic.start([], serviceWays, serviceRates);
      const startMs = performance.now();
      const datagrams = (): number => traffic.between('udp', 0, performance.now(), Infinity).sent;
      try {
        while (datagrams() < packetsWanted) {
          for (const mode of ['noEncap', 'hybrid'] as const) {
            await toTunnel();
            await toDirect(mode);
          }
          console.log(`${changes.length} changes, ${datagrams()} datagrams`);
        }
      } finally {
        const counts = [await traffic.stop(), await throughServices.stop()];
        const [all, broken] = [counts.flatMap(({ streams: each }) => each), counts.reduce((sum, each) => sum + each.broken, 0)];
        for (const each of [traffic, throughServices])
          for (const kind of ['udp', 'connect'] as const) console.log(lossTimes(each, kind, startMs).join('\n'));
        const texts = all.map(({ name, sent, lost: none, slowestMs }) => `${name} lost ${none} of ${sent}, slowest ${slowestMs} ms`);
        console.log(`${changes.length} changes: ${texts.join('; ')}`);
        const hasLost = ({ kind, lost: none, slowestMs }: (typeof all)[number]) =>
          none > 0 || (kind === 'connect' && slowestMs >= synAgainMs);
        expect({ broken, lossy: all.filter(hasLost) }).toEqual({ broken: 0, lossy: [] });
      }
    });

  /** When messages of a kind were lost, after which change. Halves a period as long as some were lost in it: each count reads all datagrams. */
  const lossTimes = (traffic: Traffic, kind: 'udp' | 'connect', fromMs: number, toMs = performance.now()): readonly string[] => {
    const { lost: count } = traffic.between(kind, fromMs, toMs, Infinity);
    if (count === 0) return [];
    const middleMs = (fromMs + toMs) / 2;
    if (toMs - fromMs > 20) return [...lossTimes(traffic, kind, fromMs, middleMs), ...lossTimes(traffic, kind, middleMs, toMs)];
    const last = changes.findLast((each) => each.atMs <= fromMs);
    const time = new Date(performance.timeOrigin + fromMs).toISOString();
    return [`${time} ${count} of ${kind} lost, ${Math.round(fromMs - (last?.atMs ?? fromMs))} ms after ${last?.text ?? 'the start'}`];
  };

  /** New connections of pods and processes of both nodes, straight and through Services: none fails. */
  async function untilConnected(): Promise<void> {
    const ways = [...routes(), ...serviceRoutes(await clusterAddresses())];
    const traffic = await Traffic.start([lab.pod('web-1'), lab.pod('web-3')], ways, { messages: 5, connects: 5 });
    const startMs = performance.now();
    const connects = () => traffic.between('connect', startMs, performance.now(), Infinity);
    await until(
      () => connects().sent >= 5 * traffic.names.length,
      60_000,
      () => `${connects().sent} connections were tried`,
    );
    const { streams: all } = await traffic.stop();
    expect(all.filter(({ kind, lost: none }) => kind === 'connect' && none > 0)).toEqual([]);
  }

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
    await untilConnected();
    await lab.exec(3, 'nft', 'delete', 'table', 'inet', 'probe');
  });
});

function summary(counts: readonly StreamCount[]): string {
  const lost = counts.map((count) => count.lost).join(', ');
  return `lost ${lost} of ${counts.reduce((sum, { sent }) => sum + sent, 0)} packets, at most ${Math.max(...counts.map(({ longestGap }) => longestGap))} one after another`;
}
