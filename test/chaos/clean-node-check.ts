import type { ChildProcess } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Place, portsPath, run, runIn, startIn, until } from './host.ts';
import type { Lab } from './lab.ts';

/** Links and addresses of the tested node from its lab, before any fault. */
export interface NodeWires {
  /** The lab's id, part of the names of its namespaces, which are deleted with the lab. */
  readonly labId: string;
  readonly transport: readonly string[];
  /** The link that has those addresses: a bridge of Open vSwitch, or the veth itself with the kernel's data path. */
  readonly transportLink: string;
  readonly defaultRoutes: readonly string[];
  /** Address and prefix length on `mgmt0`. */
  readonly management: string;
  readonly apiServer: string;
}

interface IpAddress {
  readonly addr_info: readonly { readonly local: string; readonly prefixlen: number; readonly scope: string }[];
}

/** Reads them from the tested node. */
export async function wiresOf(lab: Lab): Promise<NodeWires> {
  const addresses = async (link: string): Promise<string[]> => {
    const [found] = JSON.parse(await lab.on('ip', '-j', 'address', 'show', 'dev', link)) as IpAddress[];
    return (found?.addr_info ?? []).filter(({ scope }) => scope === 'global').map(({ local, prefixlen }) => `${local}/${prefixlen}`);
  };
  const gateways = async (family: string): Promise<string[]> => {
    const found = JSON.parse(await lab.on('ip', '-j', family, 'route', 'show', 'default')) as { gateway: string }[];
    return found.map(({ gateway }) => gateway);
  };
  const kubeconfig = readFileSync(join(lab.tried.rundir, 'kubeconfig'), 'utf8');
  const [management] = await addresses('mgmt0');
  const apiServer = /server: https:\/\/(?<host>[^\s]+)/.exec(kubeconfig)?.groups?.['host'];
  if (management === undefined || apiServer === undefined) throw new Error('the tried node has no way to the API server');
  return {
    labId: lab.tried.netns.split('-')[1] ?? '',
    transport: await addresses(lab.transportLink),
    transportLink: lab.transportLink,
    defaultRoutes: (await Promise.all(['-4', '-6'].map(gateways))).flat(),
    management,
    apiServer,
  };
}

/** Environment of one fresh agent: a namespace with the tested node's addresses and a new Open vSwitch. */
export class VirginGround {
  readonly place: Place;
  /** Namespace of its other end, which only forwards to the API server. */
  readonly #outside: string;
  readonly #wires: NodeWires;
  readonly #log: number;
  #relay: ChildProcess | undefined;
  #wireGuard: ChildProcess | undefined;
  #isPinned = false;

  private constructor(place: Place, outside: string, wires: NodeWires) {
    this.place = place;
    this.#outside = outside;
    this.#wires = wires;
    this.#log = openSync(join(place.rundir, 'driver.log'), 'a');
  }

  /** @param number distinguishes it from the other environments of the lab @param viewSocket socket that serves the API, as plain HTTP */
  static async prepare(lab: Lab, wires: NodeWires, number: number, viewSocket: string): Promise<VirginGround> {
    const rundir = join(lab.dir, 'v', String(number));
    mkdirSync(rundir, { recursive: true, mode: 0o700 });
    const [netns, outside] = ['v', 'w'].map((letter) => `seine-${wires.labId}-${letter}${number}`) as [string, string];
    const ground = new VirginGround({ netns, rundir }, outside, wires);
    await ground.#wire();
    if (lab.options.podInterface !== 'veth') await ground.#pinPorts();
    await Promise.all([ground.#startRelay(viewSocket), ground.#startSwitch()]);
    if (lab.options.paths === 'wireguard') await ground.#startWireGuard();
    return ground;
  }

  get mark(): Readonly<Record<string, string>> {
    return { SEINE_LAB: this.#wires.labId };
  }

  get log(): number {
    return this.#log;
  }

  /** Ends OVS and deletes the namespaces. Their processes must have ended. */
  async remove(): Promise<void> {
    this.#relay?.kill('SIGKILL');
    this.#wireGuard?.kill('SIGKILL');
    for (const daemon of ['ovs-vswitchd', 'ovsdb-server']) killByFile(join(this.place.rundir, `${daemon}.pid`));
    for (const netns of [this.place.netns, this.#outside]) await run('ip', ['netns', 'delete', netns]);
    if (this.#isPinned) await run('umount', ['--lazy', portsPath(this.place)]);
    closeSync(this.#log);
    rmSync(this.place.rundir, { recursive: true, force: true });
  }

  async #wire(): Promise<void> {
    const { netns } = this.place;
    const out = this.#outside;
    const batch = (where: string, lines: readonly string[]) => run('ip', ['-n', where, '-batch', '-'], { input: lines.join('\n') });
    const [apiIp] = this.#wires.apiServer.split(':');
    for (const name of [netns, out]) await run('ip', ['netns', 'add', name]);
    await batch(out, [
      'link set lo up',
      `link add u1 type veth peer name eth0 netns ${netns}`,
      `link add m1 type veth peer name mgmt0 netns ${netns}`,
      'link set u1 up',
      'link set m1 up',
      `address add ${apiIp}/${this.#wires.management.split('/')[1]} dev m1`,
    ]);
    await runIn(netns, 'sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1']);
    await batch(netns, ['link set lo up', `address add ${this.#wires.management} dev mgmt0`, 'link set mgmt0 up']);
    if (this.#wires.transportLink === 'eth0') await this.#address();
    else await this.#prepareForPacketSocket();
  }

  /** Adds the node's addresses and its default route. */
  async #address(): Promise<void> {
    const { transport, transportLink: link, defaultRoutes } = this.#wires;
    const lines = [
      `link set ${link} up`,
      ...transport.map((address) => `address replace ${address} dev ${link}${address.includes(':') ? ' nodad' : ''}`),
      ...defaultRoutes.map((gateway) => `route replace default via ${gateway} dev ${link}`),
    ];
    await run('ip', ['-n', this.place.netns, '-batch', '-'], { input: lines.join('\n') });
  }

  /** The link becomes a port of a bridge by a packet socket, which only copies frames. */
  async #prepareForPacketSocket(): Promise<void> {
    const { netns } = this.place;
    await runIn(netns, 'sysctl', ['-qw', 'net.ipv6.conf.eth0.disable_ipv6=1']);
    await runIn(netns, 'ip', ['link', 'set', 'eth0', 'up']);
    const drop = 'add chain netdev seine-lab eth0 { type filter hook ingress device "eth0" priority 0; policy drop; }';
    await runIn(netns, 'nft', [`add table netdev seine-lab; ${drop}`]);
  }

  /** The namespace of pre-plugged ports, which a plugin creates after the first pod. */
  async #pinPorts(): Promise<void> {
    const path = portsPath(this.place);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, '', { mode: 0o400 });
    await run('unshare', ['--net', 'mount', '--bind', '/proc/self/ns/net', path]);
    this.#isPinned = true;
  }

  async #startRelay(viewSocket: string): Promise<void> {
    const [ip, port] = this.#wires.apiServer.split(':');
    const listen = `TCP-LISTEN:${port},bind=${ip},fork,reuseaddr,backlog=64`;
    this.#relay = startIn(this.#outside, 'socat', [listen, `UNIX-CONNECT:${viewSocket}`], this.#log, this.mark);
    await until(
      async () => (await runIn(this.#outside, 'ss', ['-Hltn'])).includes(`:${port}`),
      60_000,
      () => 'the way to the API server does not listen',
    );
  }

  /** Starts the process that serves the WireGuard device, with a folder of its own for the socket, as a lab does. */
  async #startWireGuard(): Promise<void> {
    const { netns, rundir } = this.place;
    const folder = join(rundir, 'wireguard');
    mkdirSync(folder, { mode: 0o700 });
    const script = 'mkdir -p /var/run/wireguard; mount --bind "$1" /var/run/wireguard; exec wireguard-go -f antrea-wg0';
    this.#wireGuard = startIn(netns, 'unshare', ['--mount', 'sh', '-c', script, 'sh', folder], this.#log, this.mark);
    await until(
      async () => existsSync(join(folder, 'antrea-wg0.sock')),
      60_000,
      () => 'wireguard-go does not start',
    );
  }

  /** Starts OVS as a lab does: nothing is forwarded before the agent has written its flows. */
  async #startSwitch(): Promise<void> {
    const { netns, rundir } = this.place;
    const data = join(rundir, 'ovs');
    mkdirSync(data, { mode: 0o700 });
    const env = { ...this.mark, OVS_RUNDIR: rundir, OVS_DBDIR: data, OVS_LOGDIR: data, OVS_SYSCONFDIR: data };
    const on = (command: string, ...args: readonly string[]) => runIn(netns, command, args, { env });
    const [database, remote] = [join(data, 'conf.db'), join(rundir, 'db.sock')];
    const daemon = ['--pidfile', '--log-file', '--no-chdir', '--detach', '-vconsole:off'];
    await on('ovsdb-tool', 'create', database, join(process.env['OVS_PKGDATADIR'] ?? '/usr/share/openvswitch', 'vswitch.ovsschema'));
    await on('ovsdb-server', database, `--remote=punix:${remote}`, ...daemon);
    await on('ovs-vsctl', '--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.', 'other_config:flow-restore-wait=true');
    await on('ovs-vswitchd', `unix:${remote}`, ...daemon);
    const { transportLink } = this.#wires;
    if (transportLink === 'eth0') return;
    const bridge = ['add-br', transportLink, '--', 'set', 'bridge', transportLink, 'datapath_type=netdev', 'fail_mode=standalone'];
    await on('ovs-vsctl', ...bridge, '--', 'add-port', transportLink, 'eth0');
    await this.#address();
  }
}

function killByFile(path: string): void {
  try {
    process.kill(Number(readFileSync(path, 'utf8')), 'SIGKILL');
  } catch {
    // It has ended, or never started.
  }
}
