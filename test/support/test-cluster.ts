import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Wanted } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import { tableNames, tables } from '../../src/dataplane/pipeline/tables.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { wantedByOwner } from '../model/scene.ts';
import { nodes, outside, type PlannedNode, pods, sceneOf } from './cluster-plan.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';

export type Datapath = 'netdev' | 'system';

/** `SEINE_TEST_DATAPATH=system` runs the same tests on the kernel's data path, if the host's kernel has one. */
export const datapath: Datapath = process.env['SEINE_TEST_DATAPATH'] === 'system' ? 'system' : 'netdev';

const nothingHeld: ReturnType<typeof encodeBridgeEntries> = new Map();

/** Timeout of starting a cluster. The kernel's data path may be in an emulated host. */
export const patienceMs = datapath === 'system' ? 900_000 : 60_000;

/**
 * The planned nodes and pods with real switches, links and sockets, and no agent: compilers and targets create flows, routes, nftables
 * rules and pods' interfaces from the plan.
 */
export class TestCluster {
  readonly switches: ReadonlyMap<string, TestSwitch>;
  readonly #prefix: string;
  readonly #stop = new AbortController();
  readonly #targets = new Map<string, BridgeTarget>();
  /** Installed entries by node and owner. */
  readonly #held = new Map<string, ReturnType<typeof encodeBridgeEntries>>();

  private constructor(prefix: string, switches: ReadonlyMap<string, TestSwitch>) {
    this.#prefix = prefix;
    this.switches = switches;
  }

  static async start(): Promise<TestCluster> {
    const cluster = new TestCluster(`seine-w-${randomBytes(3).toString('hex')}-`, new Map(nodes.map(({ name }) => [name, startSwitch()])));
    try {
      cluster.#wire();
      for (const node of nodes) await cluster.#bringUp(node);
      cluster.#meet();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** Network namespace of a pod, a node, or `external`: the link between the nodes and everything behind it. */
  place(who: string): string {
    return this.switches.get(who)?.netns ?? `${this.#prefix}${who}`;
  }

  switchOf(node: string): TestSwitch {
    const found = this.switches.get(node);
    if (!found) throw new Error(`there is no node ${node}`);
    return found;
  }

  exec(who: string, command: string, ...args: readonly string[]): string {
    return execFileSync('nsenter', [`--net=/run/netns/${this.place(who)}`, command, ...args], { encoding: 'utf8', stdio: 'pipe' });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    for (const ovs of this.switches.values()) await ovs.stop();
    for (const who of ['external', ...pods.map(({ name }) => name)]) {
      const isThere = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).includes(this.place(who));
      if (isThere) execFileSync('ip', ['netns', 'delete', this.place(who)]);
    }
  }

  #wire(): void {
    for (const who of ['external', ...pods.map(({ name }) => name)]) {
      execFileSync('ip', ['netns', 'add', this.place(who)]);
      this.exec(who, 'ip', 'link', 'set', 'lo', 'up');
    }
    const external = (line: string) => this.exec('external', 'ip', ...line.split(' '));
    external('link add wire type bridge forward_delay 0 mcast_snooping 0');
    external(`addr add ${outside.router.ipv4.text}/24 dev wire`);
    external(`addr add ${outside.router.ipv6.text}/64 dev wire nodad`);
    external(`addr add ${outside.far.ipv4.text}/32 dev lo`);
    external(`addr add ${outside.far.ipv6.text}/128 dev lo`);
    external('link set wire up');
    if (datapath === 'netdev') this.exec('external', 'ethtool', '-K', 'wire', 'tx', 'off');
    for (const { name } of nodes) {
      external(`link add ${name} type veth peer name eth0 netns ${this.place(name)}`);
      external(`link set ${name} master wire up`);
      if (datapath === 'netdev') this.exec('external', 'ethtool', '-K', name, 'tx', 'off');
    }
  }

  async #bringUp(node: PlannedNode): Promise<void> {
    const ovs = this.switchOf(node.name);
    ovs.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1', 'net.ipv6.conf.eth0.disable_ipv6=1');
    const uplink = datapath === 'netdev' ? underlayBridge(ovs) : 'eth0';
    if (datapath === 'system') ovs.exec('sysctl', '-qw', 'net.ipv6.conf.eth0.disable_ipv6=0');
    ovs.exec('ip', 'link', 'set', 'eth0', 'up');
    ovs.exec('ip', 'link', 'set', uplink, 'up');
    for (const { family, text } of node.environment.transport) {
      ovs.exec('ip', 'addr', 'add', `${text}/${family === 'ipv4' ? 24 : 64}`, 'dev', uplink, ...(family === 'ipv6' ? ['nodad'] : []));
      ovs.exec('ip', 'route', 'add', 'default', 'via', outside.router[family].text, 'dev', uplink);
    }
    ovs.exec('ovs-vsctl', ...integrationBridge(node));
    await this.#putFlows(node, ovs);
    ovs.exec(process.execPath, join(import.meta.dirname, 'prepare-node.ts'), node.name, this.#prefix, datapath);
    ovs.exec('ovs-vsctl', ...podPorts(node));
  }

  /** The userspace data path drops the first tunnel packet to a node whose Ethernet address it does not know. */
  #meet(): void {
    for (const { name } of nodes) {
      for (const { text } of nodes.flatMap(({ name: other, environment }) => (other === name ? [] : environment.transport)))
        this.exec(name, 'ping', '-q', '-c', '2', '-i', '0.2', '-W', '2', text);
    }
  }

  /** Installs an owner's desired entries on a node's bridge, in place of its earlier ones. */
  async hold(node: string, owner: Owner, wanted: Wanted): Promise<void> {
    const held = this.#held.get(`${node} ${owner}`) ?? nothingHeld;
    const put = encodeBridgeEntries(owner, wanted);
    const remove = new Set([...held.keys()].filter((key) => !put.has(key)));
    await this.#targetOf(node).apply({ put, remove }, this.#stop.signal);
    this.#held.set(`${node} ${owner}`, put);
  }

  #targetOf(node: string): BridgeTarget {
    const found = this.#targets.get(node);
    if (!found) throw new Error(`there is no bridge of ${node} yet`);
    return found;
  }

  async #putFlows(node: PlannedNode, ovs: TestSwitch): Promise<void> {
    const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void connection.run(this.#stop.signal);
    const owners = [...wantedByOwner(sceneOf(node))].map(([owner, wanted]) => [owner, encodeBridgeEntries(owner, wanted)] as const);
    await connection.untilUp(this.#stop.signal);
    const target = new BridgeTarget(connection);
    this.#targets.set(node.name, target);
    await target.apply({ put: new Map(owners.flatMap(([, entries]) => [...entries])), remove: new Set() }, this.#stop.signal);
    for (const [owner, entries] of owners) this.#held.set(`${node.name} ${owner}`, entries);
  }
}

/**
 * The userspace data path sends tunnel packets only through its own ports, so the node's address is on a bridge. A packet socket only
 * copies: the kernel must drop the original, and checksums are not filled in.
 */
function underlayBridge(ovs: TestSwitch): string {
  ovs.exec('ethtool', '-K', 'eth0', 'tx', 'off');
  ovs.exec('nft', 'add table netdev test; add chain netdev test in { type filter hook ingress device "eth0" priority 0; policy drop; }');
  ovs.exec('ovs-vsctl', 'add-br', 'br-phy', '--', 'set', 'bridge', 'br-phy', 'datapath_type=netdev', '--', 'add-port', 'br-phy', 'eth0');
  return 'br-phy';
}

function integrationBridge({ environment: { gateway, tunnel } }: PlannedNode): string[] {
  const names = tableNames.flatMap((name) => ['--', `--id=@t${tables[name].id}`, 'create', 'flow_table', `name=${name}`]);
  const shown = tableNames.map((name) => `flow_tables:${tables[name].id}=@t${tables[name].id}`);
  const setTunnel = [`type=${tunnel.type}`, 'options:remote_ip=flow', 'options:local_ip=flow', 'options:key=flow'];
  return [
    ...['add-br', 'br-int', ...names],
    ...['--', 'set', 'bridge', 'br-int', `datapath_type=${datapath}`, 'fail_mode=secure', 'other-config:disable-in-band=true', ...shown],
    ...['--', 'add-port', 'br-int', 'antrea-tun0'],
    ...['--', 'set', 'interface', 'antrea-tun0', ...setTunnel, `ofport_request=${tunnel.ofPort}`],
    ...['--', 'add-port', 'br-int', gateway.name],
    ...['--', 'set', 'interface', gateway.name, 'type=internal', `ofport_request=${gateway.ofPort}`],
    ...[`mac="${gateway.mac}"`, `mtu_request=${gateway.mtu}`],
  ];
}

function podPorts({ pods: own }: PlannedNode): string[] {
  return own.flatMap(({ hostName, intent }, index) => [
    ...(index > 0 ? ['--'] : []),
    ...['add-port', 'br-int', hostName, '--', 'set', 'interface', hostName, `ofport_request=${intent.ofPort}`],
  ]);
}
