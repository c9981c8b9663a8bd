import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { encodeBridgeEntries } from '../../src/datapath/bridge-entry.ts';
import { BridgeTarget } from '../../src/datapath/bridge-target.ts';
import { parseIp } from '../../src/net/ip.ts';
import { OpenFlowConnection } from '../../src/openflow/connection.ts';
import { wantedByOwner } from '../model/scene.ts';
import { exampleNode, examplePods, exampleProxying } from './example-node.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';
import { type SceneService, sceneService } from './scene-service.ts';

export type Counts = Readonly<Record<string, number>>;

const target = 8080;
const [pod] = examplePods as [(typeof examplePods)[number]];
const gateway = exampleNode.gateway;

/**
 * Services of many endpoints with real connections: a pod's namespace on one side of a real switch, and on the other, behind the
 * gateway, one namespace that has all the endpoints' addresses. Userspace data path.
 */
export class ShareBench {
  readonly ovs: TestSwitch;
  readonly #client: string;
  readonly #server: ChildProcess;
  readonly #stop: AbortController;

  private constructor(parts: { ovs: TestSwitch; client: string; server: ChildProcess; stop: AbortController }) {
    this.ovs = parts.ovs;
    this.#client = parts.client;
    this.#server = parts.server;
    this.#stop = parts.stop;
  }

  /** @param udp how many of the endpoints also take datagrams */
  static async start(services: readonly SceneService[], udp = 0): Promise<ShareBench> {
    const ovs = startSwitch();
    const client = `seine-c-${randomBytes(3).toString('hex')}`;
    const stop = new AbortController();
    execFileSync('ip', ['netns', 'add', client]);
    const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    connect(ovs, client);
    void connection.run(stop.signal);
    await connection.untilUp(stop.signal);
    const scene = { node: exampleNode, peers: [], pods: [pod], services, proxying: exampleProxying };
    const entries = [...wantedByOwner(scene)].flatMap(([owner, wanted]) => [...encodeBridgeEntries(owner, wanted)]);
    await new BridgeTarget(connection).apply({ put: new Map(entries), remove: new Set() }, stop.signal);
    const script = join(import.meta.dirname, 'share-server.ts');
    const words = [`--net=/run/netns/${ovs.netns}`, process.execPath, script, `${target}`, ...endpointAddresses(udp)];
    const server = spawn('nsenter', words, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    await once(server, 'message');
    return new ShareBench({ ovs, client, server, stop });
  }

  /** Opens so many connections to a Service, some at a time. */
  async open(protocol: 'tcp' | 'udp', to: { readonly ip: string; readonly port: number }, count: number, atOnce: number): Promise<void> {
    const script = join(import.meta.dirname, 'share-client.ts');
    const words = [`--net=/run/netns/${this.#client}`, process.execPath, script, protocol, to.ip, `${to.port}`, `${count}`, `${atOnce}`];
    const [code] = (await once(spawn('nsenter', words, { stdio: ['ignore', 'ignore', 'inherit'] }), 'exit')) as [number | null];
    if (code !== 0) throw new Error(`the client ended with ${code}`);
  }

  /** Who was asked since the last time, how often. */
  async counts(): Promise<Counts> {
    const answered = once(this.#server, 'message') as Promise<[Counts]>;
    this.#server.send('counts');
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

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#server.disconnect();
    this.#server.kill('SIGKILL');
    await once(this.#server, 'exit');
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
  const own = pod.addresses.find(({ family }) => family === 'ipv4') ?? parseIp('0.0.0.0');
  const router = gateway.addresses.find(({ family }) => family === 'ipv4') ?? parseIp('0.0.0.0');
  const bridge = ['set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure', 'other-config:disable-in-band=true'];
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
