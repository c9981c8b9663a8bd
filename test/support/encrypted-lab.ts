import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { parse, stringify } from 'yaml';
import { wireGuardFolder } from '../../lab/node/wireguard.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { ProcessWireGuard } from '../../src/netlink/wireguard/process-wireguard.ts';
import type { WireGuardDevice } from '../../src/netlink/wireguard/wireguard.ts';
import { ClearCapture } from './clear-capture.ts';
import { ConvergeLab, until } from './converge-lab.ts';
import { slowness } from './test-datapath.ts';
import { echo, type StreamCount, UdpStream } from './udp-stream.ts';
import { setUrgency, urgent } from './urgency.ts';

const echoPort = 7_100;
const families = ['ipv4', 'ipv6'] as const;

export type NodeNumber = 1 | 2;

/** Two nodes that encrypt. A capture on every link shows what leaves without encryption. */
export class EncryptedLab {
  readonly lab: ConvergeLab;
  readonly #ends: (() => void)[] = [];
  #capture: ClearCapture | undefined;

  private constructor(lab: ConvergeLab) {
    this.lab = lab;
  }

  static async start(): Promise<EncryptedLab> {
    const encrypted = new EncryptedLab(await ConvergeLab.start(2, undefined, { encryption: 'wireguard' }));
    try {
      await encrypted.#prepare();
      return encrypted;
    } catch (thrown) {
      await encrypted.remove();
      throw thrown;
    }
  }

  async #prepare(): Promise<void> {
    const { lab } = this;
    await lab.startPods();
    this.#ends.push(setUrgency(process.pid, urgent));
    for (const pid of [...(await lab.switchPids()), ...lab.wireGuardPids()]) setUrgency(pid, urgent);
    for (const family of families) this.#ends.push(await echo(lab.pod('web-2').netns, this.ipOf('web-2', family), echoPort));
    await this.established();
    this.#capture = await ClearCapture.start(lab.plan);
  }

  async remove(): Promise<void> {
    for (const end of this.#ends.toReversed()) end();
    await this.#capture?.stop();
    await this.lab.remove();
  }

  /** Number of packets so far that left a node without encryption. */
  get clear(): number {
    return this.#capture?.seen.count ?? 0;
  }

  ipOf(pod: string, family: Family): string {
    return this.lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';
  }

  async routesOver(number: NodeNumber, device: string): Promise<string> {
    return await this.lab.exec(number, 'ip', 'route', 'show', 'dev', device, 'proto', '0x5e');
  }

  async wg(number: NodeNumber, what: string): Promise<string> {
    return (await this.lab.exec(number, 'wg', 'show', 'antrea-wg0', what)).trim();
  }

  /** Undefined where the kernel has the device. */
  async deviceOf(number: NodeNumber): Promise<WireGuardDevice | undefined> {
    const { plan } = this.lab;
    return await new ProcessWireGuard(wireGuardFolder(plan, this.lab.node(number))).read(
      'antrea-wg0',
      AbortSignal.timeout(5_000 * slowness),
    );
  }

  async keyOf(number: NodeNumber): Promise<string> {
    return (await this.deviceOf(number))?.publicKey ?? (await this.wg(number, 'public-key'));
  }

  async peerKeys(number: NodeNumber): Promise<readonly string[]> {
    return (await this.deviceOf(number))?.peers.map(({ publicKey }) => publicKey) ?? (await this.wg(number, 'peers')).split('\n');
  }

  /** Reports whether a node has completed a handshake with the other. */
  async isAnswered(number: NodeNumber): Promise<boolean> {
    const device = await this.deviceOf(number);
    if (device) return device.peers.some(({ handshakeAt }) => handshakeAt !== undefined);
    return /\s[1-9]\d*$/m.test(await this.wg(number, 'latest-handshakes'));
  }

  /** Waits until both nodes send encrypted packets to each other. */
  async established(): Promise<void> {
    await this.untilReached();
    for (const number of [1, 2] as const)
      await until(
        async () => (await this.routesOver(number, 'antrea-wg0')) !== '',
        20_000,
        () => `node ${number} has no route over antrea-wg0`,
      );
  }

  async untilReached(): Promise<void> {
    await this.lab.untilReached(this.lab.pod('client-1'), this.lab.pod('web-2'));
    await this.lab.untilReached(this.lab.pod('client-2'), this.lab.pod('web-1'));
  }

  /** Runs `work` while a pod exchanges packets with one of the other node in both families. @returns the streams, and clear packets */
  async during(work: () => Promise<void>): Promise<{ readonly streams: readonly StreamCount[]; readonly clear: number }> {
    const before = this.clear;
    const { netns } = this.lab.pod('client-1');
    const streams = await Promise.all(families.map((family) => UdpStream.start(netns, this.ipOf('web-2', family), echoPort)));
    let counts: readonly StreamCount[] = [];
    try {
      await continued(streams);
      await work();
      await continued(streams);
    } finally {
      counts = await Promise.all(streams.map((stream) => stream.stop()));
    }
    return { streams: counts, clear: this.clear - before };
  }

  async restart(number: NodeNumber, verb: 'stop' | 'kill'): Promise<void> {
    await this.lab.agent(number, verb);
    await this.lab.agent(number, 'start');
    await this.lab.untilReady(number);
  }

  /** Restarts the agent of a node with another encryption. */
  async configure(number: NodeNumber, mode: 'none' | 'allow' | 'drop'): Promise<void> {
    const { agentConfig } = nodePaths(this.lab.plan.dir, this.lab.node(number).name);
    const config = parse(readFileSync(agentConfig, 'utf8')) as Readonly<Record<string, object>>;
    const encryption =
      mode === 'none'
        ? { trafficEncryptionMode: 'none' }
        : { trafficEncryptionMode: 'wireGuard', wireGuard: { ...config['wireGuard'], unencryptedPeers: mode } };
    writeFileSync(agentConfig, stringify({ ...config, ...encryption }));
    await this.restart(number, 'stop');
  }

  /** Requests another key. @returns the status of the answer */
  async rotateKey(number: NodeNumber): Promise<number | undefined> {
    const { apiSocket } = nodePaths(this.lab.plan.dir, this.lab.node(number).name);
    return await new Promise<number | undefined>((resolve, reject) => {
      const sent = request({ socketPath: apiSocket, path: '/v1/wireguard/rotate', method: 'POST', agent: false }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.once('error', reject);
      sent.end();
    });
  }

  /** Waits until a node has neither table nor peers: the process creates the device again, which an agent would take over with them. */
  async ended(number: NodeNumber): Promise<void> {
    await until(
      async () => {
        const hasTable = (await this.lab.exec(number, 'nft', 'list', 'tables')).includes('seine-clear');
        return !hasTable && (await this.peerKeys(number).catch(() => [])).every((key) => key === '');
      },
      60_000,
      () => `encryption of node ${number} does not end`,
    );
  }
}

async function continued(streams: readonly UdpStream[]): Promise<void> {
  const before = streams.map(({ answered }) => answered);
  await until(
    () => streams.every(({ answered }, at) => answered > (before[at] ?? 0) + 100),
    20_000,
    () => 'packets of a stream do not come back',
  );
}
