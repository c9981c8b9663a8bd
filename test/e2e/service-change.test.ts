import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runIn } from '../../lab/machine/netns.ts';
import { type ConnectionCount, ConnectionStream } from '../../lab/probe/connection-stream.ts';
import { connectTcpIn } from '../../lab/probe/sockets.ts';
import { type Ip, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { encodeFrame } from '../support/frame.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { eventually, families, type KubeService, ofFamily, podManifest, ServiceLab, silent } from '../support/service-lab.ts';
import { SteadyUdp } from '../support/steady-udp.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

/** Services while everything around them changes: effect on connections, old and new. */
let lab: ServiceLab;
let resetUrgency: () => void = () => undefined;

const web = { selector: { app: 'web' } };
const signal = () => AbortSignal.timeout(20_000);

beforeAll(async () => {
  lab = await ServiceLab.start();
  // A switch that waits for a processor loses packets, and so do clients and servers.
  resetUrgency = setUrgency(process.pid, urgent);
  for (const pid of [...(await lab.lab.switchPids()), ...lab.lab.daemonPids()]) setUrgency(pid, urgent);
  // A thousand connections a second would use up the ports of a client within half a minute.
  for (const client of ['client-1', 'client-2', 'client-3'])
    await runIn(lab.place(client), 'sysctl', ['-qw', 'net.ipv4.tcp_tw_reuse=1', 'net.ipv4.ip_local_port_range=2000 65000'], {}, signal());
}, 180_000);
afterAll(async () => {
  resetUrgency();
  await lab?.remove();
});

/** Every path of a datagram to a Service, as places, addresses and ports. */
function ways(service: KubeService): readonly { readonly from: string; readonly address: string; readonly port: number }[] {
  return families.flatMap((family) => {
    const cluster = { address: ofFamily(service.spec.clusterIPs ?? [], family), port: 80 };
    const node = { address: lab.ip('node-1', family), port: lab.nodePort(service, 'udp') };
    return [
      { from: 'client-1', ...cluster },
      { from: 'node-1', ...cluster },
      { from: 'external', ...node },
      { from: 'client-2', ...node },
    ];
  });
}

async function steady(service: KubeService): Promise<{ readonly clients: readonly SteadyUdp[]; readonly stop: () => void }> {
  const clients = await Promise.all(ways(service).map(({ from, address, port }) => SteadyUdp.start(lab.place(from), address, port)));
  const stop = () => {
    for (const client of clients) client.stop();
  };
  return { clients, stop };
}

const allReceive = (clients: readonly SteadyUdp[], who: string) =>
  eventually(async () => expect(clients.map(({ last }) => last)).toEqual(clients.map(() => who)));

describe('a UDP client that keeps its port', () => {
  it('is forwarded to the next endpoint when its own is replaced', async () => {
    const name = lab.name('cycled');
    const service = await lab.service(name, { type: 'NodePort' });
    await lab.endpoints(name, [{ pod: 'web-1' }]);
    const { clients, stop } = await steady(service);
    try {
      await allReceive(clients, 'web-1');
      for (const pod of ['web-2', 'web-3', 'web-2']) {
        const startedMs = performance.now();
        await lab.endpoints(name, [{ pod }]);
        await allReceive(clients, pod);
        console.log(`all clients heard ${pod} after ${(Math.max(...clients.map(({ sinceMs }) => sinceMs)) - startedMs).toFixed(0)} ms`);
      }
    } finally {
      stop();
    }
  });

  it('is forwarded to an endpoint of a Service that had none, and is refused when it is removed', async () => {
    const name = lab.name('filled');
    const service = await lab.service(name, { type: 'NodePort' });
    await lab.endpoints(name, [{ pod: 'web-3', ready: false }]);
    const { clients, stop } = await steady(service);
    try {
      await allReceive(clients, 'REFUSED');
      await lab.endpoints(name, [{ pod: 'web-3' }]);
      await allReceive(clients, 'web-3');
      await lab.endpoints(name, []);
      await allReceive(clients, 'REFUSED');
    } finally {
      stop();
    }
  });

  it('is served as soon as its Service exists, and again by a later one', async () => {
    const name = lab.name('reborn');
    const first = await lab.service(name, { ...web, type: 'NodePort' });
    const { clients, stop } = await steady(first);
    const { clusterIPs, ports } = first.spec;
    try {
      await eventually(async () => expect(clients.every(({ last }) => last.startsWith('web-'))).toBe(true));
      await lab.delete('services', name);
      await eventually(async () => expect(await quiet(clients)).toBe(true));
      await lab.service(name, { selector: { client: '3' }, type: 'NodePort', clusterIPs, ports });
      await allReceive(clients, 'client-3');
    } finally {
      stop();
    }
  });

  it('follows a real pod that is deleted and recreated elsewhere', async () => {
    const service = await lab.service(lab.name('moved'), { selector: { app: 'moved' }, type: 'NodePort' });
    await lab.start(podManifest('moved-1', 'node-2', { app: 'moved' }));
    const { clients, stop } = await steady(service);
    try {
      await allReceive(clients, 'moved-1');
      await lab.delete('pods', 'moved-1', { gracePeriodSeconds: 0 });
      await lab.start(podManifest('moved-2', 'node-3', { app: 'moved' }));
      await allReceive(clients, 'moved-2');
    } finally {
      stop();
    }
  });

  it('of another endpoint is not affected', async () => {
    const name = lab.name('others');
    const service = await lab.service(name, { type: 'NodePort' });
    await lab.endpoints(name, [{ pod: 'web-2' }, { pod: 'web-3' }]);
    const groups = [await steady(service), await steady(service), await steady(service)];
    const clients = groups.flatMap((group) => group.clients);
    try {
      // Connections tracked before the Service had an endpoint are deleted a few times, its youngest clients with them.
      const settled = ({ last, sinceMs }: SteadyUdp) => last.startsWith('web-') && performance.now() - sinceMs > 1_500;
      await eventually(async () => expect(clients.every(settled)).toBe(true));
      const before = clients.map(({ last }) => last);
      expect(new Set(before).size).toBe(2);
      await lab.endpoints(name, [{ pod: 'web-2' }, { pod: 'web-1' }]);
      await eventually(async () => expect(clients.some(({ last }) => last === 'web-3')).toBe(false));
      const all = ways(service);
      const moved = clients.flatMap(({ last }, at) => (before[at] === 'web-2' && last !== 'web-2' ? [all[at % all.length]] : []));
      expect(moved).toEqual([]);
    } finally {
      for (const { stop } of groups) stop();
    }
  });
});

/** Reports whether no client reaches a pod for a moment: the Service is deleted. */
async function quiet(clients: readonly SteadyUdp[]): Promise<boolean> {
  const before = clients.map(({ answers }) => answers);
  await sleep(150);
  return clients.every(({ answers }, at) => answers === before[at]);
}

describe('an established connection', () => {
  it('continues when its endpoint leaves the Service, and when the Service is deleted', async () => {
    for (const family of families) {
      const name = lab.name('held');
      const service = await lab.service(name, {});
      await lab.endpoints(name, [{ pod: 'web-2' }]);
      const address = ofFamily(service.spec.clusterIPs ?? [], family);
      for (const from of ['client-1', 'node-3']) await lab.sees({ from, address, port: 80 }, { pods: ['web-2'], failures: [] });
      const conversations = [await conversation('client-1', address), await conversation('node-3', address)];
      await lab.endpoints(name, [{ pod: 'web-1' }]);
      await lab.sees({ from: 'client-1', address, port: 80 }, { pods: ['web-1'], failures: [] });
      for (const { say: exchange } of conversations) expect(await exchange()).toContain('demo/web-2');
      await lab.delete('services', name);
      await lab.sees({ from: 'client-1', address, port: 80, ...silent }, { pods: [] });
      for (const { say: exchange, close } of conversations) {
        expect(await exchange()).toContain('demo/web-2');
        close();
      }
    }
  });

  it.each(families)('is not reset by a packet of its server that is out of its window, over %s', async (family) => {
    const name = lab.name('boom');
    const service = await lab.service(name, {});
    await lab.endpoints(name, [{ pod: 'web-2' }]);
    const address = ofFamily(service.spec.clusterIPs ?? [], family);
    await lab.sees({ from: 'client-1', address, port: 80 }, { pods: ['web-2'], failures: [] });
    const { say: exchange, close, socket } = await conversation('client-1', address);
    await exchange();
    const wire = RawSocket.open(lab.place('web-2'), 'eth0');
    try {
      const [ipSrc, ipDst] = [parseIp(lab.ip('web-2', family)), parseIp(lab.ip('client-1', family))];
      wire.send(encodeFrame({ ...(await macsOf('web-2', family)), ...boom(ipSrc, ipDst, socket.localPort ?? 0) }));
      for (let each = 0; each < 3; each++) expect(await exchange()).toContain('demo/web-2');
      expect(wire.frames.filter((frame) => isReset(frame, family))).toEqual([]);
    } finally {
      wire.close();
      close();
    }
  });
});

describe('a half-open connection', () => {
  /** Connections to a pod of this node and one of another, directly and through a Service. */
  const all: { readonly pod: string; readonly address: string; readonly way: 'pod' | 'Service' }[] = [];
  const lose = 'add table inet t; add chain inet t o { type filter hook output priority 0; }; add rule inet t o tcp flags fin,rst drop';
  const inClient = (command: string, ...args: string[]) => runIn(lab.place('client-1'), command, args, {}, signal());
  const ports = (range: string) => inClient('sysctl', '-qw', `net.ipv4.ip_local_port_range=${range}`);

  beforeAll(async () => {
    for (const pod of ['web-1', 'web-2']) {
      const service = await lab.service(lab.name('lost'), {});
      await lab.endpoints(service.metadata.name, [{ pod }]);
      await lab.seesEverywhere(service, ['client-1', 'client-2'], { pods: [pod], failures: [] }, { tries: 1 });
      for (const address of service.spec.clusterIPs ?? []) all.push({ pod, address, way: 'Service' });
      for (const family of families) all.push({ pod, address: lab.ip(pod, family), way: 'pod' });
    }
  });

  it.each(['pod', 'Service'])('does not prevent its client from reconnecting, to a %s', async (to) => {
    const aims = all.filter(({ way }) => way === to);
    await ports(to === 'pod' ? '44000 44000' : '44002 44002');
    try {
      const sockets = await Promise.all(aims.map(({ address }) => connectTcpIn(lab.place('client-1'), address, 80, signal())));
      await inClient('nft', lose);
      await Promise.all(sockets.map((socket) => once(socket.resetAndDestroy(), 'close')));
      await inClient('nft', 'delete table inet t');
      const again = aims.map(({ address }) => lab.look({ from: 'client-1', address, port: 80, tries: 1, timeoutMs: 12_000 }));
      const answers = (await Promise.all(again)).map(({ pods, failures }) => [...pods, ...failures].join());
      expect(answers).toEqual(aims.map(({ pod }) => pod));
    } finally {
      await ports('2000 65000');
    }
  });

  it('cannot be faked by another pod for a live one', async () => {
    const wire = RawSocket.open(lab.place('client-2'), 'eth0');
    for (const { pod, address } of all) {
      const { family } = parseIp(address);
      const { say: exchange, close, socket } = await conversation('client-1', address);
      await exchange();
      const link = { ...(await macsOf('client-2', family)), payload: family, protocol: 'tcp', portDst: 80, ttl: 64 } as const;
      const from = { ipSrc: parseIp(lab.ip('client-1', family)), portSrc: socket.localPort ?? 0 };
      for (const tcpFlags of ['syn', 'rst', 'syn'] as const)
        for (const ipDst of [parseIp(address), parseIp(lab.ip(pod, family))]) wire.send(encodeFrame({ ...link, ...from, ipDst, tcpFlags }));
      for (let each = 0; each < 3; each++) expect(await exchange()).toContain(pod);
      close();
    }
    wire.close();
  });
});

const boom = (ipSrc: Ip, ipDst: Ip, portDst: number) =>
  ({ payload: ipSrc.family, protocol: 'tcp', tcpFlags: 'ack-back', ipSrc, ipDst, portSrc: 80, portDst, ttl: 64 }) as const;

/** RFC 9293, 3.1: flags are in the 14th byte of the header, RST is 4. */
function isReset(frame: Buffer, family: 'ipv4' | 'ipv6'): boolean {
  const header = family === 'ipv4' ? 14 + ((frame[14] ?? 0) & 15) * 4 : 54;
  const protocol = family === 'ipv4' ? frame[23] : frame[20];
  return protocol === 6 && ((frame[header + 13] ?? 0) & 4) !== 0;
}

async function macsOf(pod: string, family: 'ipv4' | 'ipv6') {
  const run = async (...args: string[]) => JSON.parse(await runIn(lab.place(pod), 'ip', ['-j', ...args], {}, signal())) as unknown;
  const [link] = (await run('link', 'show', 'eth0')) as { address: string }[];
  const [route] = (await run(family === 'ipv4' ? '-4' : '-6', 'route', 'show', 'default')) as { gateway: string }[];
  const [neighbour] = (await run('neigh', 'show', route?.gateway ?? '')) as { lladdr: string }[];
  return { ethSrc: parseMac(link?.address ?? ''), ethDst: parseMac(neighbour?.lladdr ?? '') };
}

/** A connection that stays open: `say` sends a line and returns the answer. */
async function conversation(from: string, address: string) {
  const socket: Socket = await connectTcpIn(lab.place(from), address, 80, signal());
  let broken: Error | undefined;
  socket.on('error', (error) => (broken = error));
  const exchange = async (): Promise<string> => {
    const answered = new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => reject(broken ?? new Error(`no answer on a connection from ${from}`)), 3_000);
      socket.once('data', (data) => {
        clearTimeout(timer);
        resolve(data.toString());
      });
    });
    socket.write('who\n');
    return await answered;
  };
  return { socket, say: exchange, close: () => socket.destroy() };
}

/**
 * A thousand connections a second in all, from pods of two nodes and from external clients, to a Service with two of three endpoints at a
 * time.
 */
describe('under a thousand connections a second', () => {
  const perSecond = 170;
  const steps = [
    ['web-1', 'web-2'],
    ['web-2', 'web-3'],
    ['web-3', 'web-1'],
  ] as const;

  /** If a tenth of them had to retransmit, OVS was without a CPU for long, and losses mean nothing. */
  const isShortOfProcessors = ({ opened, late }: ConnectionCount): boolean => late > opened / 10;
  const attempts = 3;

  /** Retries if some failed on a host that was too busy; the last try counts in any case. */
  async function rushed(name: string, during: (roll: (step: number) => Promise<void>) => Promise<void>): Promise<ConnectionCount> {
    for (let attempt = 1; ; attempt++) {
      const count = await rushedOnce(`${name}-${attempt}`, during);
      if (count.failed === 0 || attempt === attempts || !isShortOfProcessors(count)) return count;
      report(`${name}, on a machine that was too busy`, count);
    }
  }

  async function rushedOnce(name: string, during: (roll: (step: number) => Promise<void>) => Promise<void>): Promise<ConnectionCount> {
    const service = await lab.service(name, { type: 'NodePort' });
    const roll = (step: number) =>
      lab.endpoints(
        name,
        (steps[step % 3] ?? []).map((pod) => ({ pod })),
      );
    await roll(0);
    const aims = ways(service).map(({ from, address, port }) => ({ from, address, port: port === 80 ? 80 : lab.nodePort(service, 'tcp') }));
    const wanted = aims.filter(({ from }) => from !== 'node-1');
    for (const aim of wanted) await lab.sees(aim, { failures: [] });
    const streams = wanted.map(({ from, ...to }) => new ConnectionStream({ from: lab.place(from), ...to, perSecond }));
    try {
      await during(roll);
    } finally {
      await sleep(200);
    }
    return sum(await Promise.all(streams.map((stream) => stream.stop())));
  }

  function report(what: string, { opened, failed, late, failures }: ConnectionCount): void {
    console.log(`${what}: ${opened} connections, ${failed} failed, ${late} late ${failures.join(', ')}`);
  }

  it('none fails while endpoints are replaced repeatedly', async () => {
    const count = await rushed(lab.name('rolling'), async (roll) => {
      for (let step = 1; step <= 20; step++) {
        await roll(step);
        await sleep(150);
      }
    });
    report('endpoints replaced', count);
    expect(count.opened).toBeGreaterThan(1_500);
    expect({ failed: count.failed, failures: count.failures }).toEqual({ failed: 0, failures: [] });
    expect(count.byPod.size).toBe(3);
  });

  it('none fails while an agent restarts, and changes meanwhile are followed', async () => {
    const count = await rushed(lab.name('restarted'), async (roll) => {
      await lab.lab.agent(1, 'kill');
      await roll(1);
      await lab.lab.agent(1, 'start');
      await lab.lab.untilReady(1);
      await roll(2);
      await sleep(500);
    });
    report('agent restarted', count);
    expect({ failed: count.failed, failures: count.failures }).toEqual({ failed: 0, failures: [] });
  });

  it('none fails without the API server, and its return is noticed', async () => {
    const count = await rushed(lab.name('cut-off'), async (roll) => {
      await lab.apiServer('stop');
      await sleep(500);
      await lab.apiServer('start');
      await roll(1);
      await sleep(500);
    });
    report('API server restarted', count);
    expect({ failed: count.failed, failures: count.failures }).toEqual({ failed: 0, failures: [] });
  });

  it('a node is deleted, and no connection is forwarded there any more', async () => {
    const count = await rushed(lab.name('left'), async (roll) => {
      await roll(1);
      await sleep(300);
      await roll(0);
      await sleep(500);
      await lab.lab.agent(3, 'stop');
      await sleep(500);
      await lab.lab.agent(3, 'start');
      await lab.lab.untilReady(3);
    });
    report('a node left', count);
    expect({ failed: count.failed, failures: count.failures }).toEqual({ failed: 0, failures: [] });
  });

  it('some fail while Open vSwitch of a client restarts, and none after', async () => {
    const count = await rushedOnce(lab.name('switched'), async () => {
      await lab.lab.killOvs(1, 'ovs-vswitchd');
      await lab.lab.startOvs(1);
      await lab.lab.untilReady(1);
    });
    report('Open vSwitch restarted', count);
    const after = await rushed(lab.name('switched'), () => sleep(500));
    expect({ failed: after.failed, failures: after.failures }).toEqual({ failed: 0, failures: [] });
  });
});

function sum(counts: readonly ConnectionCount[]): ConnectionCount {
  const of = (key: 'opened' | 'failed' | 'late') => counts.reduce((all, count) => all + count[key], 0);
  const byPod = new Map<string, number>();
  for (const [pod, count] of counts.flatMap((one) => [...one.byPod])) byPod.set(pod, (byPod.get(pod) ?? 0) + count);
  return { opened: of('opened'), failed: of('failed'), late: of('late'), failures: counts.flatMap(({ failures }) => failures), byPod };
}

describe('a deleted object', () => {
  it('flows, groups and nftables rules are restored, and addresses answer', async () => {
    const service = await lab.service(lab.name('repaired'), { ...web, type: 'NodePort' });
    const aims = [...lab.clusterAims(service, ['client-1', 'node-1']), ...lab.nodeAims(service, 'external', 'node-1')];
    await lab.allSee(aims, { failures: [] });
    for (const command of [
      ['ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int'],
      ['ovs-ofctl', '-O', 'OpenFlow15', 'del-groups', 'br-int'],
      ['nft', 'delete', 'table', 'inet', 'seine'],
    ] as const) {
      const [program, ...args] = command;
      await lab.lab.exec(1, program, ...args);
      await lab.allSee(aims, { failures: [] });
    }
  });
});
