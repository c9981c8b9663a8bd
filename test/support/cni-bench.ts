import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Log, silentLog } from '../../src/base/log/log.ts';
import { cidrAddress, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import type { Environment } from '../../src/cni/environment.ts';
import { CniError, cniCodes } from '../../src/cni/errors.ts';
import { bootIdPath } from '../../src/cni/served-boot.ts';
import { encodeRequest } from '../../src/cni/wire.ts';
import { createNodeHost } from '../../src/cni-shim/node-host.ts';
import { runPlugin } from '../../src/cni-shim/plugin.ts';
import { peerCredentials } from '../../src/netlink/sockets/unix-peer.ts';
import type { ServedCall } from '../../src/pods/cni-server/calls.ts';
import { CniServer } from '../../src/pods/cni-server/server.ts';
import { FakePodNetwork } from '../../src/pods/cni-server/testing/pod-network-fake.ts';
import { type DelegatedCall, type DelegatedIpam, type DelegatedNetworkCall, delegatedIpam } from '../../src/pods/ipam/delegated-ipam.ts';
import { Ipam } from '../../src/pods/ipam/ipam.ts';
import { FileJournalStore, journalIn } from '../../src/pods/ipam/journal-store.ts';
import type { Lease, Pool } from '../../src/pods/ipam/lease.ts';
import type { PodLookup } from '../../src/pods/network/node-pods.ts';

export interface PluginRun {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

export function poolOf(text: string): Pool {
  const cidr = parseCidr(text);
  return { cidr, gateway: cidrAddress(cidr, 1n) };
}

/** Allocates from 10.98.0.0/24 in turn, like `host-local`; it keeps its own record of allocated addresses. */
export class FakeDelegatedIpam implements DelegatedIpam {
  readonly allocated = new Map<string, string>();
  /** Answer of the plugin to STATUS and GC; success if absent. */
  failure: CniError | undefined;
  /** Received GC calls. */
  readonly collected: string[] = [];
  #next = 2;

  async add({ network, containerId, ifName, ipamType }: DelegatedCall): ReturnType<DelegatedIpam['add']> {
    await this.#find(ipamType);
    const text = `10.98.0.${this.#next++}`;
    this.allocated.set(`${network}/${containerId}/${ifName}`, text);
    const addresses = [{ ip: parseIp(text), prefixLength: 24, gateway: parseIp('10.98.0.1') }];
    return { addresses, routes: [{ destination: parseCidr('198.51.100.0/24') }], dns: { nameservers: ['10.98.0.1'] } };
  }

  async del({ network, containerId, ifName, ipamType }: DelegatedCall): Promise<void> {
    await this.#find(ipamType);
    this.allocated.delete(`${network}/${containerId}/${ifName}`);
  }

  async check({ ipamType }: DelegatedCall): Promise<void> {
    await this.#find(ipamType);
  }

  async status({ ipamType }: DelegatedNetworkCall): Promise<void> {
    await this.#find(ipamType);
    if (this.failure) throw this.failure;
  }

  async gc({ ipamType, conf }: DelegatedNetworkCall): Promise<void> {
    await this.#find(ipamType);
    if (this.failure) throw this.failure;
    this.collected.push(conf);
  }

  async #find(ipamType: string): Promise<void> {
    await Promise.resolve();
    if (ipamType !== 'host-local') throw new CniError(cniCodes.invalidConfig, `no plugin ${ipamType}`);
  }
}

/** A CNI server with a fake data plane in its own folder, and the plugin that calls it, in this process. */
export class CniBench {
  readonly folder = mkdtempSync(join(tmpdir(), 'seine-cni-'));
  readonly network = new FakePodNetwork();
  readonly delegatedIpam = new FakeDelegatedIpam();
  /** Plugins are other processes: their identity is the kernel's, and IPAM plugins really run. */
  real = false;
  readonly pools: readonly Pool[];
  /** Answer of `isAbsent` of the IPAM. */
  absent = (_lease: Lease): boolean => true;
  peerUid = 0;
  pods: PodLookup | undefined;
  reportPoolExhausted = true;
  isSpokenFor: (lease: Lease) => boolean = () => false;
  log: Log = silentLog;
  /** Calls that the server reported for metrics. */
  readonly served: ServedCall[] = [];
  #ipam: Ipam | undefined;
  #server: CniServer | undefined;

  constructor(pools: readonly string[] = ['10.1.0.0/22', 'fd00:10:1::/64']) {
    this.pools = pools.map(poolOf);
  }

  get socketPath(): string {
    return join(this.folder, 'run', 'cni.sock');
  }

  get stateDir(): string {
    return join(this.folder, 'state');
  }

  get ipam(): Ipam {
    if (!this.#ipam) throw new Error('the bench is not started');
    return this.#ipam;
  }

  /** The host's own, unless it was rebooted in the test. */
  bootId = readFileSync(bootIdPath, 'utf8').trim();

  async start(): Promise<this> {
    const store = new FileJournalStore(journalIn(this.stateDir));
    const isAbsent = async (lease: Lease) => this.absent(lease);
    const isSpokenFor = (lease: Lease) => this.isSpokenFor(lease);
    this.#ipam = await Ipam.open({ store, pools: this.pools, bootId: this.bootId, isAbsent, isClaimedByApi: isSpokenFor, log: this.log });
    this.#server = await this.listen();
    return this;
  }

  /** A server on the bench's socket. */
  async listen(): Promise<CniServer> {
    return await CniServer.start({
      socketPath: this.socketPath,
      stateDir: this.stateDir,
      ipam: this.ipam,
      network: this.network,
      delegatedIpam: this.real ? delegatedIpam : this.delegatedIpam,
      peerCredentials: this.real ? peerCredentials : () => ({ pid: 1, uid: this.peerUid }),
      reportPoolExhausted: this.reportPoolExhausted,
      ...(this.pods ? { pods: this.pods } : {}),
      log: this.log,
      onCall: (call) => this.served.push(call),
    });
  }

  /** Stops the server; a later `start` finds the journal and the data plane as they are. */
  async stop(): Promise<void> {
    await this.#server?.close();
    await this.#ipam?.close();
    this.#server = undefined;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Removes all attachments and leases. */
  clear(): void {
    for (const lease of this.ipam.leases()) this.ipam.release(lease);
    this.network.wired.clear();
  }

  /** The configuration with this bench's socket and folder; text that is not an object is unchanged. */
  aim(stdin: string, extra: Readonly<Record<string, unknown>> = {}): string {
    let conf: unknown;
    try {
      conf = JSON.parse(stdin);
    } catch {
      return stdin;
    }
    if (typeof conf !== 'object' || conf === null || Array.isArray(conf)) return stdin;
    return JSON.stringify({ ...conf, agentSocket: this.socketPath, stateDir: this.stateDir, ...extra });
  }

  /** Runs the plugin as a runtime would. */
  async run(env: Environment, stdin: string): Promise<PluginRun> {
    let stdout = '';
    let stderr = '';
    const exit = await runPlugin({
      ...createNodeHost({ ...env }),
      readStdin: () => ({ text: stdin }),
      writeStdout: (text) => (stdout += text),
      writeStderr: (text) => (stderr += text),
    });
    return { exit, stdout, stderr };
  }

  /** A call with the usual variables. */
  async call(
    command: string,
    containerId: string,
    conf: Readonly<Record<string, unknown>> = {},
    env: Environment = {},
  ): Promise<PluginRun> {
    const variables = {
      CNI_CONTAINERID: containerId,
      CNI_NETNS: `/run/netns/${containerId}`,
      CNI_IFNAME: 'eth0',
      CNI_PATH: '/opt/cni/bin',
    };
    const stdin = this.aim(JSON.stringify({ cniVersion: '1.1.0', name: 'seine', type: 'seine', deadline: 5, ...conf }));
    return await this.run({ CNI_COMMAND: command, ...variables, ...env }, stdin);
  }

  /** A gate for the data plane: everything waits until it is opened. */
  closeGate(): () => void {
    let open = () => {};
    this.network.gate = new Promise((resolve) => (open = resolve));
    return open;
  }

  /** A plugin that sends its call and then behaves as the test defines. */
  async rawCall(containerId: string, command = 'ADD', attempt = 1): Promise<Socket> {
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: `/run/netns/${containerId}`,
      CNI_IFNAME: 'eth0',
      CNI_PATH: '/opt/cni/bin',
    };
    const conf = this.aim(JSON.stringify({ cniVersion: '1.1.0', name: 'seine', type: 'seine' }));
    const body = Buffer.from(encodeRequest({ env, conf, deadlineMs: 5_000, attempt }));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    const socket = connect(this.socketPath);
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write(Buffer.concat([header, body]));
    return socket;
  }
}

/** 0, or the code of the error. */
export const codeOf = ({ exit, stdout }: PluginRun): number => (exit === 0 ? 0 : (JSON.parse(stdout) as { code: number }).code);

export async function replyOn(socket: Socket): Promise<{ exit: number; stdout: string }> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8', 4)) as { exit: number; stdout: string };
}
