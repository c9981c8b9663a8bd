import type { Socket as DatagramSocket } from 'node:dgram';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask, type Outcome, upload } from '../../lab/probe/probe.ts';
import { Responder } from '../../lab/probe/responder.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import type { Family, Ip } from '../../src/base/net/ip.ts';
import { serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import { addressOf, clusterIp, families, gatewayOf, nodes, outside, pods, port, services } from '../support/cluster-plan.ts';
import { datapath, patienceMs, TestCluster } from '../support/test-cluster.ts';

const timeoutMs = datapath === 'system' ? 20_000 : 3_000;
const everything = new AbortController();
let cluster: TestCluster;
const responders: Responder[] = [];

beforeAll(async () => {
  cluster = await TestCluster.start();
  const both = (ip: (family: Family) => Ip) => families.map((family) => ip(family).text);
  const listen = async (who: string, node: string, ips: readonly string[], ...ports: readonly number[]): Promise<void> => {
    const wanted = ports.flatMap((number) => (['tcp', 'udp'] as const).map((protocol) => ({ protocol, port: number })));
    responders.push(await Responder.start({ pod: who, node }, cluster.place(who), { tcp: ips, udp: ips }, wanted, everything.signal));
  };
  for (const node of nodes) {
    for (const { name } of node.pods)
      await listen(
        name,
        node.name,
        both((family) => addressOf(name, family)),
        port.server,
      );
    await listen(
      node.name,
      node.name,
      both((family) => addressOf(node.name, family)),
      port.host,
    );
  }
  await listen(
    'external',
    '',
    both((family) => outside.far[family]),
    port.server,
  );
}, patienceMs);
afterAll(async () => {
  everything.abort();
  for (const responder of responders) responder.close();
  await cluster.stop();
});

/** Requests over TCP and UDP; both answers must be the same, except for ports. */
async function asked(from: string, to: Ip, number: number): Promise<{ who: string; client: string }> {
  const probe = { from: cluster.place(from), address: to.text, port: number, timeoutMs };
  const answers = await Promise.all((['tcp', 'udp'] as const).map((protocol) => ask({ ...probe, protocol })));
  const [tcp, udp] = answers.map(summary);
  expect(udp).toEqual(tcp);
  return tcp ?? { who: 'none', client: '' };
}

function summary(outcome: Outcome): { who: string; client: string } {
  if (outcome.is !== 'OK') return { who: outcome.is, client: '' };
  return { who: outcome.answer.pod, client: outcome.answer.client.replace(/:\d+$/, '').replace(/^\[|\]$/g, '') };
}

/** @returns the TTLs of the answers */
function pinged(from: string, to: Ip): string[] {
  const said = cluster.exec(from, 'ping', '-n', '-c', '2', '-i', '0.1', '-W', '2', to.text);
  return Array.from(said.matchAll(/ttl=(\d+)/g), ([, ttl = '']) => ttl);
}

describe.each(families)('over %s', (family) => {
  const address = (who: string) => addressOf(who, family);
  const text = (who: string) => address(who).text;
  const service = (name: keyof typeof services) => clusterIp(name, family);

  it('pods reach pods with their own addresses: on one node, and on two, in both directions', async () => {
    for (const [from, to] of [
      ['a', 'b'],
      ['a', 'c'],
      ['c', 'a'],
    ] as const)
      expect(await asked(from, address(to), port.server)).toEqual({ who: to, client: text(from) });
  });

  it('decrements TTL where it routes: none between neighbours, one per node otherwise', () => {
    expect(pinged('a', address('b'))).toEqual(['64', '64']);
    expect(pinged('a', address('c'))).toEqual(['62', '62']);
    expect(pinged('a', gatewayOf('n1', family))).toEqual(['64', '64']);
    expect(pinged('a', gatewayOf('n2', family))).toEqual(['63', '63']);
  });

  it('nodes reach their own and others’ pods, and pods reach both nodes', async () => {
    const fromGateway = { who: 'a', client: gatewayOf('n1', family).text };
    expect(await asked('n1', address('a'), port.server)).toEqual(fromGateway);
    expect(await asked('n1', address('c'), port.server)).toEqual({ who: 'c', client: gatewayOf('n1', family).text });
    expect(await asked('a', address('n1'), port.host)).toEqual({ who: 'n1', client: text('a') });
    expect(await asked('a', address('n2'), port.host)).toEqual({ who: 'n2', client: text('n1') });
  });

  it('pods reach the outside as their node', async () => {
    expect(await asked('a', outside.far[family], port.server)).toEqual({ who: 'external', client: text('n1') });
    expect(await asked('c', outside.far[family], port.server)).toEqual({ who: 'external', client: text('n2') });
  });

  // An answer over IPv6 from outside may be too big for the pods' network at first: the sender learns it, and sends again.
  it('large datagrams arrive completely: on one node, on two, on a node, outside', async () => {
    const targets = [
      [address('b'), port.server],
      [address('c'), port.server],
      [address('n1'), port.host],
      [outside.far[family], port.server],
    ] as const;
    for (const [to, number] of targets) {
      const probe = { from: cluster.place('a'), protocol: 'udp', address: to.text, port: number, timeoutMs } as const;
      expect(await upload(probe, 4000)).toMatchObject({ is: 'OK' });
    }
  });

  it('a Service spreads over its endpoints, which see the client; a pod that reaches itself sees another source', async () => {
    const seen = new Map<string, Set<string>>();
    for (let turn = 0; turn < 60; turn++) {
      const probe = { from: cluster.place('a'), address: service('web').text, port: 80, timeoutMs };
      const { who, client } = summary(await ask({ ...probe, protocol: turn % 2 === 0 ? 'tcp' : 'udp' }));
      seen.set(who, (seen.get(who) ?? new Set()).add(client));
    }
    const self = new Set([serviceNextHop[family].text]);
    const client = new Set([text('a')]);
    expect(Object.fromEntries([...seen].toSorted())).toEqual({ a: self, b: client, c: client });
  });

  it('a megabyte goes to a Service and back, on each of its endpoints', async () => {
    const probe = { from: cluster.place('a'), protocol: 'tcp', address: service('web').text, port: 80, timeoutMs: 10_000 } as const;
    const outcomes = await Promise.all(Array.from({ length: 6 }, () => upload(probe, 1_000_000)));
    expect(outcomes.map(({ is }) => is)).toEqual(Array<string>(6).fill('OK'));
  });

  it('a pod reaches itself through a Service', async () => {
    expect(await asked('a', service('onlyA'), 80)).toEqual({ who: 'a', client: serviceNextHop[family].text });
  });

  it('nodes reach Services: of pods here and there, of their own, and of another node', async () => {
    const client = gatewayOf('n1', family).text;
    expect(await asked('n1', service('onlyA'), 80)).toEqual({ who: 'a', client });
    expect(await asked('n2', service('onlyA'), 80)).toEqual({ who: 'a', client: gatewayOf('n2', family).text });
    const tcp = async (from: string, name: keyof typeof services) =>
      summary(await ask({ from: cluster.place(from), protocol: 'tcp', address: service(name).text, port: services[name].port, timeoutMs }));
    expect(await tcp('n1', 'firstNode')).toEqual({ who: 'n1', client: serviceNextHop[family].text });
    expect(await tcp('n1', 'secondNode')).toEqual({ who: 'n2', client: text('n1') });
    expect(await tcp('a', 'firstNode')).toEqual({ who: 'n1', client: text('a') });
    expect(await tcp('a', 'secondNode')).toEqual({ who: 'n2', client: text('n1') });
  });

  it('refuses immediately if the endpoint refuses', async () => {
    for (const protocol of ['tcp', 'udp'] as const) {
      const probe = { from: cluster.place('a'), protocol, address: service('closed').text, port: 80, timeoutMs };
      expect(await ask(probe)).toMatchObject({ is: 'REFUSED' });
    }
  });

  it.each(['twice', 'twiceHere'] as const)(
    'two datagrams before any answer reach one endpoint of %s, and answers come back',
    async (name) => {
      const endpoint = services[name].endpoints[0].who;
      const server = await bindUdpIn(cluster.place(endpoint), text(endpoint), port.datagrams);
      const client = await bindUdpIn(cluster.place('a'), text('a'), 0);
      try {
        const both = collect(server, 2);
        client.send('first', services[name].port, service(name).text);
        client.send('second', services[name].port, service(name).text);
        const asks = await both;
        expect(asks.map(({ data }) => data).toSorted()).toEqual(['first', 'second']);
        expect(new Set(asks.map(({ from }) => from))).toEqual(new Set([`${text('a')} ${client.address().port}`]));
        const answers = collect(client, 2);
        for (const data of ['one', 'two']) server.send(data, client.address().port, text('a'));
        const expected = ['one', 'two'].map((data) => ({ data, from: `${service(name).text} ${services[name].port}` }));
        expect((await answers).toSorted((a, b) => (a.data < b.data ? -1 : 1))).toEqual(expected);
      } finally {
        server.close();
        client.close();
      }
    },
  );

  it('packets without a receiver are dropped: a ping to a Service, a Service that does not exist, an address that no pod has', async () => {
    const before = sentByGateway();
    const unusedAddresses = family === 'ipv4' ? ['10.96.0.200', '10.10.4.77'] : ['fd00:96::c8', 'fd00:10:0:1::77'];
    for (const from of ['a', 'n1']) {
      const pings = [service('web').text, ...unusedAddresses].map((to) => `ping -q -c 1 -W 1 ${to} &`);
      const said = cluster.exec(from, 'sh', '-c', `${pings.join(' ')} wait`);
      expect(said.match(/ 0 received/g)).toHaveLength(3);
    }
    // A loop would take as many packets as there are hops in a TTL.
    expect(sentByGateway() - before).toBeLessThan(40);
  });

  it('neighbours stay reachable by probes to them alone', async () => {
    const [peer, own] = [address('b'), gatewayOf('n1', family)];
    const settings = family === 'ipv4' ? 'net.ipv4.neigh.eth0' : 'net.ipv6.neigh.eth0';
    cluster.exec('a', 'sysctl', '-qw', `${settings}.base_reachable_time_ms=400`, `${settings}.delay_first_probe_time=1`);
    for (const to of [peer, own])
      expect(cluster.exec('a', 'ping', '-q', '-c', '20', '-i', '0.1', '-W', '1', to.text)).toContain(' 0% packet loss');
    for (const to of [peer, own]) {
      const shown = cluster.exec('a', 'ip', 'neigh', 'show', 'to', to.text, 'dev', 'eth0');
      expect(shown).toMatch(/lladdr \S+ (router )?(REACHABLE|DELAY|STALE|PROBE)/);
    }
  });
});

it(`ran on the data path ${datapath}`, () => {
  expect(cluster.switchOf('n1').exec('ovs-vsctl', 'get', 'bridge', 'br-int', 'datapath_type').trim()).toBe(datapath);
  expect(pods).toHaveLength(3);
});

/** Packets from the first node's own stack to the bridge. */
function sentByGateway(): number {
  const [link] = JSON.parse(cluster.exec('n1', 'ip', '-j', '-s', 'link', 'show', 'dev', 'antrea-gw0'));
  return link.stats64.tx.packets;
}

/** The next datagrams, with `address port` of the sender. */
function collect(socket: DatagramSocket, count: number): Promise<{ data: string; from: string }[]> {
  const found: { data: string; from: string }[] = [];
  return new Promise((resolve, reject) => {
    const deadline = setTimeout(() => reject(new Error(`${found.length} of ${count} datagrams: ${JSON.stringify(found)}`)), timeoutMs);
    const receive = (data: Buffer, { address, port: number }: { address: string; port: number }): void => {
      found.push({ data: data.toString(), from: `${address} ${number}` });
      if (found.length < count) return;
      clearTimeout(deadline);
      socket.off('message', receive);
      resolve(found);
    };
    socket.on('message', receive);
  });
}
