import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { parseIp } from '../../src/base/net/ip.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { wantedByOwner } from '../model/scene.ts';
import { exampleNode, examplePods, exampleProxying } from './example-node.ts';
import { encodeFrame } from './frame.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';
import { type SceneService, sceneService } from './scene-service.ts';
import { datapath } from './test-cluster.ts';

export type Counts = Readonly<Record<string, number>>;

const target = 8080;
const [pod] = examplePods as [(typeof examplePods)[number]];
const ownAddress = pod.addresses.find(({ family }) => family === 'ipv4')?.text ?? '';
const gateway = exampleNode.gateway;

/**
 * Services of many endpoints with real connections: a pod's namespace on one side of a real switch, and on the other, behind the gateway,
 * one namespace that has all the endpoints' addresses. `SEINE_TEST_DATAPATH=system`: on the kernel's data path.
 */
export class ShareBench {
  readonly ovs = startSwitch();
  readonly #client = `seine-c-${randomBytes(3).toString('hex')}`;
  readonly #stop = new AbortController();
  /** The server first. */
  readonly #processes: ChildProcess[] = [];

  private constructor() {}

  /** @param udp number of the endpoints that also accept datagrams */
  static async start(services: readonly SceneService[], udp = 0, proxying = exampleProxying): Promise<ShareBench> {
    const bench = new ShareBench();
    try {
      await bench.#start(services, udp, proxying);
      return bench;
    } catch (error) {
      await bench.stop();
      throw error;
    }
  }

  async #start(services: readonly SceneService[], udp: number, proxying: typeof exampleProxying): Promise<void> {
    execFileSync('ip', ['netns', 'add', this.#client]);
    const connection = new OpenFlowConnection({ endpoint: `unix:${this.ovs.runDir}/br-int.mgmt` });
    connect(this.ovs, this.#client);
    void connection.run(this.#stop.signal);
    await connection.untilUp(this.#stop.signal);
    const scene = { node: exampleNode, peers: [], pods: [pod], services, proxying };
    const entries = [...wantedByOwner(scene)].flatMap(([owner, wanted]) => [...encodeBridgeEntries(owner, wanted)]);
    await new BridgeTarget(connection).apply({ put: new Map(entries), remove: new Set() }, this.#stop.signal);
    const script = join(import.meta.dirname, 'share-server.ts');
    const words = [`--net=/run/netns/${this.ovs.netns}`, process.execPath, script, `${target}`, ...endpointAddresses(udp)];
    const server = spawn('nsenter', words, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.#processes.push(server);
    await once(server, 'message');
  }

  /** Opens this number of connections to a Service, some concurrently. */
  async open(protocol: 'tcp' | 'udp', to: { readonly ip: string; readonly port: number }, count: number, atOnce: number): Promise<void> {
    const script = join(import.meta.dirname, 'share-client.ts');
    const words = [`--net=/run/netns/${this.#client}`, process.execPath, script, protocol, to.ip, `${to.port}`, `${count}`, `${atOnce}`];
    const client = spawn('nsenter', words, { stdio: ['ignore', 'ignore', 'inherit'] });
    this.#processes.push(client);
    const [code] = (await once(client, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the client ended with ${code}`);
  }

  /** One connection of the pod from a port of its own choice; `ok` with the time until the server's first data (ms), or the error. */
  async connect(ip: string, port: number, portSrc: number, limitMs: number): Promise<string> {
    const client = this.#oneConnection(ip, port, portSrc, limitMs);
    return (await text(client.stdout)).trim();
  }

  /** The same, kept open. @returns ends it, and reports whether it was `kept` or `lost` */
  async keep(ip: string, port: number, portSrc: number, limitMs: number): Promise<() => Promise<string>> {
    const client = this.#oneConnection(ip, port, portSrc, limitMs, 'keep');
    const lines = createInterface({ input: client.stdout });
    const received: string[] = [];
    lines.on('line', (line) => received.push(line));
    await once(lines, 'line');
    if (!received[0]?.startsWith('ok')) throw new Error(received[0]);
    return async () => {
      client.stdin.end('\n');
      if (received.length < 2) await once(lines, 'line');
      return received[1] ?? '';
    };
  }

  /** The pod's reset of a connection that conntrack does not have, like its kernel's answer to an unexpected packet. */
  reset(ip: string, portDst: number, portSrc: number): void {
    const ends = { ethSrc: pod.mac, ethDst: gateway.mac, ipSrc: parseIp(ownAddress), ipDst: parseIp(ip), portSrc, portDst };
    const frame = encodeFrame({ ...ends, payload: 'ipv4', ttl: 64, protocol: 'tcp', tcpFlags: 'rst' });
    const packet = Buffer.from(frame).toString('hex');
    this.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'packet-out', 'br-int', `in_port=${pod.ofPort} packet=${packet} actions=resubmit(,0)`);
  }

  /** Connections in conntrack from a port of the pod. */
  tracked(portSrc: number): readonly string[] {
    const lines = this.ovs.exec('ovs-appctl', 'dpctl/dump-conntrack').split('\n');
    return lines.filter((line) => line.includes(`orig=(src=${ownAddress},`) && line.includes(`sport=${portSrc},`));
  }

  #oneConnection(ip: string, port: number, portSrc: number, limitMs: number, ...more: readonly string[]) {
    const script = join(import.meta.dirname, 'one-connection.ts');
    const asked = [ip, `${port}`, ownAddress, `${portSrc}`, `${limitMs}`, ...more];
    const words = [`--net=/run/netns/${this.#client}`, process.execPath, script, ...asked];
    return spawn('nsenter', words, { stdio: ['pipe', 'pipe', 'inherit'] });
  }

  /** Requests by endpoint since the last call. */
  async counts(): Promise<Counts> {
    const [server] = this.#processes;
    if (!server) throw new Error('the server was not started');
    const answered = once(server, 'message') as Promise<[Counts]>;
    server.send('counts');
    const [counts] = await answered;
    return counts;
  }

  /** Flows that the data path has cached. */
  cachedFlows(): number {
    return this.ovs
      .exec('ovs-appctl', 'dpctl/dump-flows')
      .split('\n')
      .filter((line) => line.includes('actions:')).length;
  }

  /** Ends it in any state. */
  async stop(): Promise<void> {
    this.#stop.abort();
    const running = this.#processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    await Promise.all(running.map(async (each) => [each.kill('SIGKILL'), await once(each, 'exit')]));
    await this.ovs.stop();
    execFileSync('ip', ['netns', 'del', this.#client]);
  }
}

/** The first of the addresses that endpoints may have. */
function endpointAddresses(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `10.20.${at >> 8}.${at & 255}`);
}

export function serviceOf(
  count: number,
  protocol: 'TCP' | 'UDP',
  more: SceneService['service'] extends infer S ? Partial<S> : never = {},
): SceneService {
  const endpoints = endpointAddresses(count).map((address) => `${address} ${target}`);
  return sceneService({ name: `s${count}`, protocol, clusterIp: clusterIpOf(count), port: 80, endpoints, more });
}

export function clusterIpOf(count: number): string {
  return `10.96.${count >> 8}.${count & 255}`;
}

function connect(ovs: TestSwitch, client: string): void {
  const inClient = (...words: readonly string[]) => execFileSync('nsenter', [`--net=/run/netns/${client}`, ...words], { stdio: 'pipe' });
  const own = parseIp(ownAddress);
  const router = gateway.addresses.find(({ family }) => family === 'ipv4') ?? parseIp('0.0.0.0');
  const bridge = ['set', 'bridge', 'br-int', `datapath_type=${datapath}`, 'fail_mode=secure', 'other-config:disable-in-band=true'];
  const internal = ['type=internal', `ofport_request=${gateway.ofPort}`, `mac="${gateway.mac}"`];
  ovs.exec(
    'ovs-vsctl',
    'add-br',
    'br-int',
    '--',
    ...bridge,
    '--',
    'add-port',
    'br-int',
    gateway.name,
    '--',
    'set',
    'interface',
    gateway.name,
    ...internal,
  );
  ovs.exec('ip', 'link', 'add', 'pod', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', client);
  ovs.exec('ip', 'link', 'set', 'pod', 'up');
  ovs.exec('ethtool', '-K', 'pod', 'tx', 'off');
  ovs.exec('ovs-vsctl', 'add-port', 'br-int', 'pod', '--', 'set', 'interface', 'pod', `ofport_request=${pod.ofPort}`);
  inClient('ip', 'link', 'set', 'eth0', 'address', pod.mac);
  inClient('ip', 'addr', 'add', `${own.text}/22`, 'dev', 'eth0');
  inClient('ip', 'link', 'set', 'eth0', 'up');
  inClient('ethtool', '-K', 'eth0', 'tx', 'off');
  inClient('ip', 'route', 'add', 'default', 'via', router.text);
  inClient('ip', 'neigh', 'replace', router.text, 'lladdr', gateway.mac, 'dev', 'eth0', 'nud', 'permanent');
  ovs.exec('ip', 'link', 'set', gateway.name, 'up');
  ovs.exec('ip', 'addr', 'add', `${router.text}/22`, 'dev', gateway.name);
  ovs.exec('ip', 'neigh', 'replace', own.text, 'lladdr', pod.mac, 'dev', gateway.name, 'nud', 'permanent');
  ovs.exec('ip', 'route', 'add', 'local', '10.20.0.0/16', 'dev', 'lo');
}
