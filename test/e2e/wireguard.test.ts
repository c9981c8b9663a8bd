import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { transportInterface } from '../../lab/node/topology.ts';
import { wireGuardFolder } from '../../lab/node/wireguard.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { ProcessWireGuard } from '../../src/netlink/wireguard/process-wireguard.ts';
import type { WireGuardDevice } from '../../src/netlink/wireguard/wireguard.ts';
import { ClearCapture } from '../support/clear-capture.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { echo, type StreamCount, UdpStream } from '../support/udp-stream.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

const PORT = 7_100;
const families = ['ipv4', 'ipv6'] as const;
const keyAnnotation = 'node.antrea.io/wireguard-public-key';

/** Kills of agents; the device is deleted a quarter as often. */
const kills = Number(process.env['SEINE_TEST_ENCRYPTION_KILLS'] ?? '2');
const deletions = Math.max(1, Math.floor(kills / 4));

/** The userspace data path of a busy host loses packets now and then; a change that loses packets always does. */
const triesMax = 3;
/** Interruption that a change may cause (ms): a handshake with a node that does not know the key is repeated after 5 s. */
const interruptionMax = 1_000;

const longTimeoutMs = 900_000;

/** Ruleset that drops the encrypted packets that a node receives. */
const blocked = 'table inet blocked { chain input { type filter hook input priority 0; udp dport 51820 drop; }; }';

/** Two nodes that encrypt. A capture on every link shows what leaves without encryption, while pods exchange 1,000 packets per second. */
describe('encryption between nodes', () => {
  let lab: ConvergeLab;
  let capture: ClearCapture;
  const ends: (() => void)[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2, undefined, { encryption: 'wireguard' });
    await lab.startPods();
    ends.push(setUrgency(process.pid, urgent));
    for (const pid of [...(await lab.switchPids()), ...lab.wireGuardPids()]) setUrgency(pid, urgent);
    for (const family of families) ends.push(await echo(lab.pod('web-2').netns, ipOf('web-2', family), PORT));
    await established();
    capture = await ClearCapture.start(lab.plan);
  });
  afterAll(async () => {
    for (const end of ends.toReversed()) end();
    await capture?.stop();
    await lab?.remove();
  });

  const ipOf = (pod: string, family: Family): string => lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';
  const transportOf = (number: 1 | 2): string => lab.node(number).ips.find((ip) => parseIp(ip).family === 'ipv4') ?? '';
  const networkOfPeer = async (number: 1 | 2): Promise<string> =>
    /^blackhole (\S+)/m.exec(await lab.exec(number, 'ip', 'route', 'show', 'proto', '0x5e'))?.[1] ?? '';
  const routesOver = async (number: 1 | 2, device: string): Promise<string> =>
    await lab.exec(number, 'ip', 'route', 'show', 'dev', device, 'proto', '0x5e');
  const wg = async (number: 1 | 2, what: string): Promise<string> => (await lab.exec(number, 'wg', 'show', 'antrea-wg0', what)).trim();
  const deviceOf = async (number: 1 | 2): Promise<WireGuardDevice | undefined> =>
    await new ProcessWireGuard(wireGuardFolder(lab.plan, lab.node(number))).read('antrea-wg0', AbortSignal.timeout(5_000 * slowness));
  const keyOf = async (number: 1 | 2): Promise<string> => (await deviceOf(number))?.publicKey ?? (await wg(number, 'public-key'));
  const peerKeys = async (number: 1 | 2): Promise<readonly string[]> =>
    (await deviceOf(number))?.peers.map(({ publicKey }) => publicKey) ?? (await wg(number, 'peers')).split('\n');
  /** Reports whether a node has completed a handshake with the other. */
  const isAnswered = async (number: 1 | 2): Promise<boolean> => {
    const device = await deviceOf(number);
    if (device) return device.peers.some(({ handshakeAt }) => handshakeAt !== undefined);
    return /\s[1-9]\d*$/m.test(await wg(number, 'latest-handshakes'));
  };
  const cleartextDrops = async (number: 1 | 2): Promise<number> =>
    Number(/packets (\d+)/.exec(await lab.exec(number, 'nft', 'list', 'counter', 'inet', 'seine-clear', 'cleartext4'))?.[1]);

  /** Waits until both nodes send encrypted packets to each other. */
  async function established(): Promise<void> {
    await untilReached();
    for (const number of [1, 2] as const)
      await until(
        async () => (await routesOver(number, 'antrea-wg0')) !== '',
        20_000,
        () => `node ${number} has no route over antrea-wg0`,
      );
  }

  async function untilReached(): Promise<void> {
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
    await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'));
  }

  /** Runs `work` while a pod exchanges packets with one of the other node in both families. @returns the streams, and clear packets */
  async function during(work: () => Promise<void>): Promise<{ readonly streams: readonly StreamCount[]; readonly clear: number }> {
    const before = capture.seen.count;
    const streams = await Promise.all(families.map((family) => UdpStream.start(lab.pod('client-1').netns, ipOf('web-2', family), PORT)));
    let counts: readonly StreamCount[] = [];
    try {
      await continued(streams);
      await work();
      await continued(streams);
    } finally {
      counts = await Promise.all(streams.map((stream) => stream.stop()));
    }
    return { streams: counts, clear: capture.seen.count - before };
  }

  async function continued(streams: readonly UdpStream[]): Promise<void> {
    const before = streams.map(({ answered }) => answered);
    await until(
      () => streams.every(({ answered }, at) => answered > (before[at] ?? 0) + 100),
      20_000,
      () => 'packets of a stream do not come back',
    );
  }

  async function restart(number: 1 | 2, verb: 'stop' | 'kill'): Promise<void> {
    await lab.agent(number, verb);
    await lab.agent(number, 'start');
    await lab.untilReady(number);
  }

  /** Restarts the agent of a node with another encryption. */
  async function configure(number: 1 | 2, mode: 'none' | 'allow' | 'drop'): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(number).name);
    const config = parse(readFileSync(agentConfig, 'utf8')) as Readonly<Record<string, object>>;
    const encryption =
      mode === 'none'
        ? { trafficEncryptionMode: 'none' }
        : { trafficEncryptionMode: 'wireGuard', wireGuard: { ...config['wireGuard'], unencryptedPeers: mode } };
    writeFileSync(agentConfig, stringify({ ...config, ...encryption }));
    await restart(number, 'stop');
  }

  async function rotateKey(number: 1 | 2): Promise<void> {
    const { apiSocket } = nodePaths(lab.plan.dir, lab.node(number).name);
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sent = request({ socketPath: apiSocket, path: '/v1/wireguard/rotate', method: 'POST', agent: false }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.once('error', reject);
      sent.end();
    });
    expect(status).toBe(200);
  }

  /** Waits until a node has neither table nor peers: the process creates the device again, which an agent would take over with them. */
  async function ended(number: 1 | 2): Promise<void> {
    await until(
      async () => {
        const hasTable = (await lab.exec(number, 'nft', 'list', 'tables')).includes('seine-clear');
        return !hasTable && (await peerKeys(number).catch(() => [])).every((key) => key === '');
      },
      60_000,
      () => `encryption of node ${number} does not end`,
    );
  }

  /** Returns how many kernel settings a node has repaired, by a check that began after this call. */
  async function repairedSettings(number: 1 | 2): Promise<number> {
    const sinceMs = performance.now();
    await until(
      async () => {
        const age = (await lab.metrics(number)).get('health_check_age_seconds{check="settings"}') ?? Number.POSITIVE_INFINITY;
        return performance.now() - age * 1_000 > sinceMs;
      },
      30_000,
      () => `node ${number} does not check its kernel settings`,
    );
    return (await lab.metrics(number)).get('drift_entries_total{part="settings"}') ?? 0;
  }

  it('encrypts everything between pods of two nodes, and loses nothing when agents are killed', { timeout: longTimeoutMs }, async () => {
    const keys = [await keyOf(1), await keyOf(2)];
    const { streams, clear } = await during(async () => {
      for (let kill = 0; kill < kills; kill++) await restart(kill % 2 === 0 ? 1 : 2, 'kill');
    });
    console.log(`${kills} kills: ${streams.map(({ sent }) => sent).join(' and ')} packets`);
    expect(clear).toBe(0);
    expect(streams.map(({ lost }) => lost)).toEqual([0, 0]);
    expect([await keyOf(1), await keyOf(2)]).toEqual(keys);
  });

  it('writes nothing to the device after a restart, and keeps the key file', async () => {
    const file = join(nodePaths(lab.plan.dir, lab.node(1).name).stateDir, 'wireguard.key');
    const [before, link] = [readFileSync(file, 'utf8'), await lab.exec(1, 'ip', '-o', 'link', 'show', 'antrea-wg0')];
    await restart(1, 'stop');
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(await lab.exec(1, 'ip', '-o', 'link', 'show', 'antrea-wg0')).toBe(link);
    for (const operation of ['put', 'remove'])
      expect((await lab.metrics(1)).get(`reconcile_entries_total{part="wireguard",operation="${operation}"}`) ?? 0).toBe(0);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['its route is deleted', async () => await lab.exec(1, 'ip', 'route', 'del', await networkOfPeer(1), 'dev', 'antrea-wg0')],
    ['the device is down', async () => await lab.exec(1, 'ip', 'link', 'set', 'antrea-wg0', 'down')],
    ['the table is deleted', async () => await lab.exec(1, 'nft', 'delete', 'table', 'inet', 'seine-clear')],
    ['the table is empty', async () => await lab.exec(1, 'nft', 'flush', 'table', 'inet', 'seine-clear')],
  ])('sends nothing without encryption when %s, and repairs it', async (_, fault) => {
    const { clear } = await during(async () => {
      await fault();
      await established();
    });
    expect(clear).toBe(0);
    await until(
      async () => (await lab.exec(1, 'nft', 'list', 'table', 'inet', 'seine-clear')).includes('oifname'),
      10_000,
      () => 'the table is not restored',
    );
  });

  it('recreates a deleted device with the same key', { timeout: longTimeoutMs }, async () => {
    const key = await keyOf(1);
    for (let deletion = 0; deletion < deletions; deletion++) {
      const { clear } = await during(async () => {
        await lab.exec(1, 'ip', 'link', 'delete', 'antrea-wg0');
        await until(
          async () => (await keyOf(1).catch(() => '')) === key,
          20_000,
          () => 'the device has not been recreated',
        );
        await established();
      });
      expect(clear).toBe(0);
    }
  });

  it('drops and counts packets that another program’s route would send without encryption', async () => {
    const network = `${ipOf('web-2', 'ipv4')}/32`;
    const [before, clearBefore] = [await cleartextDrops(1), capture.seen.count];
    await lab.exec(1, 'ip', 'route', 'add', network, 'via', transportOf(2), 'dev', transportInterface(lab.plan), 'proto', 'static');
    try {
      expect((await lab.reach(lab.pod('client-1'), ipOf('web-2', 'ipv4'))).is).not.toBe('OK');
      expect(await cleartextDrops(1)).toBeGreaterThan(before);
    } finally {
      await lab.exec(1, 'ip', 'route', 'del', network, 'proto', 'static');
    }
    await established();
    expect(capture.seen.count).toBe(clearBefore);
  });

  it('sends nothing to a node without a key', async () => {
    const clearBefore = capture.seen.count;
    await lab.agent(2, 'stop');
    const signal = AbortSignal.timeout(20_000 * slowness);
    const body = { metadata: { annotations: { [keyAnnotation]: null } } };
    const path = `/api/v1/nodes/${lab.node(2).name}`;
    await lab.api.send({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' }, signal);
    await until(
      async () => (await routesOver(1, 'antrea-wg0')) === '',
      20_000,
      () => 'node 1 still sends to node 2',
    );
    expect((await lab.reach(lab.pod('client-1'), ipOf('web-2', 'ipv4'))).is).not.toBe('OK');
    await lab.agent(2, 'start');
    await lab.untilReady(2);
    await established();
    expect(capture.seen.count).toBe(clearBefore);
  });

  it('replaces the key of a node, peers first', async () => {
    const [before, peer] = [await keyOf(1), await keyOf(2)];
    const { streams, clear } = await during(async () => {
      await rotateKey(1);
      await until(
        async () => (await keyOf(1)) !== before,
        60_000,
        () => 'the key has not changed',
      );
      await untilReached();
    });
    expect(clear).toBe(0);
    expect([await keyOf(2), await peerKeys(2)]).toEqual([peer, [await keyOf(1)]]);
    console.log(
      `a key was replaced: lost ${streams.map(({ lost }) => lost).join(' and ')} of ${streams.map(({ sent }) => sent).join(' and ')}`,
    );
  });

  it('is turned off and on again under traffic without an interruption', { timeout: longTimeoutMs }, async () => {
    const changes: readonly (readonly [1 | 2, 'none' | 'allow' | 'drop'])[] = [
      [1, 'allow'],
      [2, 'allow'],
      [1, 'none'],
      [2, 'none'],
      [1, 'allow'],
      [2, 'allow'],
    ];
    const pending = new Set(changes.map(String));
    const clearBefore = capture.seen.count;
    for (let tries = 1; pending.size > 0; tries++)
      for (const [number, mode] of changes) {
        const { streams } = await during(async () => {
          await configure(number, mode);
          if (mode === 'none') await ended(number);
          else if (number === 2) await established();
          if (mode === 'none') expect(await repairedSettings(number)).toBe(0);
        });
        const change = String([number, mode]);
        const gap = Math.max(...streams.map(({ longestGap }) => longestGap));
        console.log(`${change}: lost ${streams.map(({ lost }) => lost).join(' and ')} of ${streams.map(({ sent }) => sent).join(' and ')}`);
        if (gap < interruptionMax) pending.delete(change);
        else if (tries === triesMax && pending.has(change)) expect({ change, gap }).toEqual({ change, gap: 0 });
      }
    expect(capture.seen.count).toBeGreaterThan(clearBefore); // it sees the tunnel
    const dropping = await during(async () => {
      await configure(1, 'drop');
      await configure(2, 'drop');
    });
    expect(dropping.clear).toBe(0);
    expect(dropping.streams.map(({ lost }) => lost)).toEqual([0, 0]);
  });

  it('sends as before while the UDP port is blocked, and begins to encrypt once it is open', async () => {
    await configure(1, 'allow');
    await configure(2, 'none');
    await ended(2);
    await lab.exec(1, 'nft', blocked);
    await configure(2, 'allow');
    await until(
      async () => (await lab.metrics(1)).get('wireguard_peers{handshake="none"}') === 1,
      20_000,
      () => 'node 1 has no peer without a handshake',
    );
    const { clear } = await during(async () => {
      expect(await routesOver(1, 'antrea-wg0')).toBe('');
      await lab.exec(1, 'nft', 'delete', 'table', 'inet', 'blocked');
      await until(
        async () => (await routesOver(1, 'antrea-wg0')) !== '',
        20_000,
        () => 'node 1 has no route over antrea-wg0',
      );
      expect(await isAnswered(1)).toBe(true); // or packets would wait for a handshake
      await established();
    });
    expect(clear).toBeGreaterThan(0); // of the tunnel, at the beginning
    expect((await lab.metrics(1)).get('wireguard_peers{handshake="recent"}')).toBe(1);
  });
});
