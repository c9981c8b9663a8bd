import { spawn } from 'node:child_process';
import type { Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bindUdpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { zones } from '../../src/dataplane/pipeline/well-known.ts';
import { addressOf, clusterIp, families, gatewayOf, outside, port, services } from '../support/cluster-plan.ts';
import { datapath, patienceMs, TestCluster } from '../support/test-cluster.ts';

/** An external client connects to the first node for a pod of the second, from the very port that the node itself uses towards that pod. */
const limitMs = datapath === 'system' ? 20_000 : 3_000;
const portSrc = 45_000;
const pairs = 5;
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.start();
  for (const family of families) {
    const route = ['route', 'replace', clusterIp('onlyC', family).text, 'via', addressOf('n1', family).text];
    cluster.exec('external', 'ip', ...(family === 'ipv6' ? ['-6'] : []), ...route);
  }
}, patienceMs);
afterAll(async () => cluster.stop());

describe.each(families)('over %s', (family) => {
  const [far, own, pod, service] = [outside.far[family], gatewayOf('n1', family), addressOf('c', family), clusterIp('onlyC', family)];
  /** Source that the pod sees: the network's own address of the first node. */
  const seen = family === 'ipv4' ? '10.10.4.0' : 'fd00:10:0:1::';

  it('datagrams: both are answered, and neither is given the other’s answer', async () => {
    const [server, node, external] = await Promise.all([
      bindUdpIn(cluster.place('c'), pod.text, port.datagrams),
      bindUdpIn(cluster.place('n1'), own.text, portSrc),
      bindUdpIn(cluster.place('external'), far.text, portSrc),
    ]);
    const [byNode, byExternal, clients] = [receivedBy(node), receivedBy(external), new Set<string>()];
    server.on('message', (data, { address, port: number }) => {
      clients.add(`${data} from ${address} ${number}`);
      server.send(`to ${data}`, number, address);
    });
    try {
      for (let turn = 0; turn < 3; turn++) {
        external.send('external', services.onlyC.port, service.text);
        node.send('node', port.datagrams, pod.text);
        await expect.poll(() => [byExternal.length, byNode.length], { timeout: limitMs }).toEqual([turn + 1, turn + 1]);
      }
      expect({ byExternal, byNode }).toEqual({
        byExternal: Array<string>(3).fill('to external'),
        byNode: Array<string>(3).fill('to node'),
      });
      expect([...clients].toSorted()).toEqual([`external from ${seen} ${portSrc}`, `node from ${own.text} ${portSrc}`]);
    } finally {
      for (const socket of [server, node, external]) socket.close();
    }
  });

  it.each([
    ['the external client first', ['external', 'n1']],
    ['the node first', ['n1', 'external']],
  ] as const)('connections: both are answered and stay, %s', async (_, order) => {
    const server = await speaker(listenTcpIn(cluster.place('c'), pod.text, port.datagrams));
    const number = portSrc + (order[0] === 'external' ? 10 : 20);
    const open = {
      external: () => connection('external', service.text, services.onlyC.port, far.text, number),
      n1: () => connection('n1', pod.text, port.datagrams, own.text, number),
    };
    const opened: ReturnType<typeof connection>[] = [];
    try {
      for (const who of order) {
        const client = open[who]();
        opened.push(client);
        expect(await client.said).toMatch(/^ok/);
      }
      for (const client of opened) expect(await client.end()).toBe('kept');
    } finally {
      for (const client of opened) client.kill();
      server.close();
    }
  });

  // A client that queries A and AAAA, or opens QUIC, sends its second datagram before the first is answered. With a megaflow for the
  // conntrack lookup and none for the later steps, both are looked up before either is committed, and the second is committed last of all.
  it('answers both datagrams that a new socket sends at once', { tags: 'hardening' }, async () => {
    const server = await bindUdpIn(cluster.place('c'), pod.text, port.datagrams);
    const ovs = cluster.switchOf('n1');
    const vswitchd = Number(readFileSync(join(ovs.runDir, 'ovs-vswitchd.pid'), 'utf8'));
    server.on('message', (data, { address, port: number }) => server.send(data, number, address));
    const answered: string[][] = [];
    try {
      for (let pair = 0; pair < pairs; pair++) {
        const client = await bindUdpIn(cluster.place('external'), far.text, portSrc + 100 + pair);
        const answers = receivedBy(client);
        ovs.exec('ovs-appctl', 'revalidator/purge');
        await sendTo(client, 'to no Service', services.onlyCDatagrams.port + 1, service.text);
        await expect.poll(() => ovs.exec('ovs-appctl', 'dpctl/dump-flows'), { timeout: limitMs }).toMatch(lookupOf(family));
        process.kill(vswitchd, 'SIGSTOP');
        await Promise.all(['A', 'AAAA'].map((question) => sendTo(client, question, services.onlyCDatagrams.port, service.text)));
        process.kill(vswitchd, 'SIGCONT');
        await expect.poll(() => answers.length, { timeout: limitMs }).toBe(2);
        answered.push(answers.toSorted());
        client.close();
      }
    } finally {
      process.kill(vswitchd, 'SIGCONT');
      server.close();
    }
    expect(answered).toEqual(Array.from({ length: pairs }, () => ['A', 'AAAA']));
  });

  // As after a restart of OVS on the userspace data path: conntrack starts with a packet from the middle of a connection.
  it('an external connection continues from the same address when the tracker of its node has lost all', async () => {
    const server = await speaker(listenTcpIn(cluster.place('c'), pod.text, port.datagrams));
    const client = connection('external', service.text, services.onlyC.port, far.text, portSrc + 30);
    try {
      expect(await client.said).toMatch(/^ok/);
      cluster.switchOf('n1').exec('ovs-appctl', 'dpctl/flush-conntrack');
      expect(await client.end()).toBe('kept');
    } finally {
      client.kill();
      server.close();
    }
  });
});

/** Data received by a socket, as it arrives. */
function receivedBy(socket: DatagramSocket): string[] {
  const received: string[] = [];
  socket.on('message', (data) => received.push(data.toString()));
  return received;
}

/** The megaflow that looks packets up in conntrack. */
function lookupOf(family: Family): RegExp {
  return new RegExp(`^recirc_id\\(0\\),.*actions:ct\\(zone=${zones[family].main},nat\\)`, 'm');
}

async function sendTo(socket: DatagramSocket, text: string, number: number, address: string): Promise<void> {
  await new Promise<void>((resolve, reject) => socket.send(text, number, address, (error) => (error ? reject(error) : resolve())));
}

/** Sends first to each client. */
async function speaker(fd: number): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('x');
    socket.on('data', (data) => socket.write(data));
  });
  server.listen({ fd });
  await once(server, 'listening');
  return server;
}

/** A connection that stays open until it is ended, and then reports whether it still existed. */
function connection(who: string, to: string, number: number, from: string, fromPort: number) {
  const script = join(import.meta.dirname, '..', 'support', 'one-connection.ts');
  const words = [
    `--net=/run/netns/${cluster.place(who)}`,
    process.execPath,
    script,
    to,
    `${number}`,
    from,
    `${fromPort}`,
    `${limitMs}`,
    'keep',
  ];
  const client = spawn('nsenter', words, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  const said = next();
  return {
    said,
    end: async (): Promise<string> => {
      client.stdin.end('\n');
      return next();
    },
    kill: () => void client.kill(),
  };
}
