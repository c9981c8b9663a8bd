import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { programFolder } from '../../build/kubernetes/programs.mjs';
import { kubeconfigText } from '../../lab/kube/kubeconfig.ts';
import { startInBackground } from '../../lab/machine/background.ts';
import { packageRoot } from '../../lab/machine/installation.ts';
import { createNetns, deleteNetns, inNetns } from '../../lab/machine/netns.ts';
import { endProcesses, type ProcessId, run, runAnyway } from '../../lab/machine/process.ts';
import { Certificates } from '../../lab/real-kubernetes/certificates.ts';
import { auditPolicy } from '../../lab/real-kubernetes/control-plane-arguments.ts';
import { until } from '../support/converge-lab.ts';

const patienceMs = 180_000;
const graceMs = 10_000;
const firstPort = 6_443;

/** Etcd's address for one of several API servers, so that each can be separated from it alone. */
const etcdFor = (server: number) => `127.0.0.${10 + server}`;
const etcdPort = 2_379;
const etcdUrl = (server: number) => `http://${etcdFor(server)}:${etcdPort}`;
/** Maximum number of API servers. */
const servers = [1, 2, 3] as const;

/** Etcd, API servers and controllers of a real Kubernetes without a node, in their own network namespace. Their programs must be built. */
export class LoneControlPlane {
  /** Folder for files of a test; deleted with it. */
  readonly dir: string;
  readonly netns = `seine-cp-${randomBytes(3).toString('hex')}`;
  readonly certificates: Certificates;
  readonly #programs: string;
  readonly #running = new Map<string, ProcessId>();

  private constructor(programs: string) {
    this.#programs = programs;
    this.dir = mkdtempSync('/tmp/seine-control-plane-');
    this.certificates = new Certificates(join(this.dir, 'pki'));
  }

  /** Starts with one API server, the first. @param programs their folder; of the whole Kubernetes if absent */
  static async start(signal: AbortSignal, programs = programFolder()): Promise<LoneControlPlane> {
    const plane = new LoneControlPlane(programs);
    try {
      await plane.#start(signal);
      return plane;
    } catch (error) {
      await plane.remove(AbortSignal.timeout(60_000));
      throw error;
    }
  }

  /**
   * Runs a line in a shell as its administrator, in `dir`. `npm run` finds the checkout. @param tools folders of programs, before those of
   * Kubernetes
   */
  async type(line: string, tools: readonly string[], signal: AbortSignal): Promise<string> {
    const text = line.replace(/^npm run /, `npm --silent --prefix ${packageRoot} run `);
    const inside = inNetns(this.netns, 'sh', ['-ec', `cd ${this.dir}; ${text}`]);
    const path = [...tools, this.#programs, process.env['PATH']].join(delimiter);
    return await run(inside.command, inside.args, { env: { KUBECONFIG: this.#kubeconfig, PATH: path, HOME: this.dir } }, signal);
  }

  /** @param input for its standard input */
  async kubectl(args: readonly string[], signal: AbortSignal, input?: string): Promise<string> {
    const inside = inNetns(this.netns, join(this.#programs, 'kubectl'), args);
    const options = { env: { KUBECONFIG: this.#kubeconfig }, ...(input === undefined ? {} : { input }) };
    return await run(inside.command, inside.args, options, signal);
  }

  async apply(objects: readonly object[], signal: AbortSignal): Promise<void> {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    await this.kubectl(['apply', '--server-side', '--validate=strict', '-f', '-'], signal, list);
  }

  /** Port of one of its API servers, on the loopback of its namespace. */
  port(server: number): number {
    return firstPort + server - 1;
  }

  auditLog(server: number): string {
    return join(this.dir, `audit-${server}.log`);
  }

  /** Starts one more API server, or a stopped one, and resolves when it is ready. @param identity of its certificate */
  async startServer(server: number, signal: AbortSignal, identity = this.certificates): Promise<void> {
    this.#run(`kube-apiserver-${server}`, 'kube-apiserver', this.#serverArguments(server, identity));
    await until(
      () => this.#isReady(server, signal),
      patienceMs,
      () => `API server ${server} is not ready; its log is in ${this.dir}`,
    );
  }

  async stopServer(server: number): Promise<void> {
    await this.#end(`kube-apiserver-${server}`);
  }

  /** Blocks traffic between this API server and etcd until `meet`: it continues to serve its state. */
  async part(server: number, signal: AbortSignal): Promise<void> {
    const chain = 'add table inet parted; add chain inet parted out { type filter hook output priority 0; }';
    const rules = ['daddr', 'saddr'].map((which) => `add rule inet parted out ip ${which} ${etcdFor(server)} drop`);
    await this.#inside('nft', [[chain, ...rules].join('; ')], signal);
  }

  async meet(signal: AbortSignal): Promise<void> {
    await this.#inside('nft', ['delete table inet parted'], signal);
  }

  /** Makes etcd drop the history before now: no watch can continue from there. Source: etcd's v3 gateway, `/v3/kv/compaction`. */
  async compact(signal: AbortSignal): Promise<void> {
    const ask = (path: string, body: object) =>
      this.#inside('curl', ['-sS', '--fail', `${etcdUrl(1)}/v3/kv/${path}`, '-d', JSON.stringify(body)], signal);
    const { header } = JSON.parse(await ask('range', { key: 'AA==' })) as { readonly header: { readonly revision: string } };
    await ask('compaction', { revision: header.revision });
  }

  /** Sends concurrent requests to the first API server without end. @returns ends it */
  flood(token: string): () => Promise<void> {
    const asked = `https://127.0.0.1:${this.port(1)}/api/v1/services?limit=[1-100000000]`;
    const many = ['-sk', '-o', '/dev/null', '--parallel', '--parallel-immediate', '--parallel-max', '50'];
    this.#run('flood', 'curl', [...many, '-H', `Authorization: Bearer ${token}`, asked], '/usr/bin');
    return async () => await this.#end('flood');
  }

  async remove(signal: AbortSignal): Promise<void> {
    await endProcesses([...this.#running.values()].toReversed(), graceMs);
    await deleteNetns(this.netns, signal);
    rmSync(this.dir, { recursive: true, force: true });
  }

  get #kubeconfig(): string {
    return join(this.dir, 'kubeconfig');
  }

  async #start(signal: AbortSignal): Promise<void> {
    await createNetns(this.netns, signal);
    await this.certificates.make(signal);
    await signServer(this.certificates, signal);
    await this.certificates.sign({ name: 'admin', commonName: 'admin', organization: 'system:masters' }, signal);
    const identity = {
      caPem: this.certificates.pem('ca', 'crt'),
      certificatePem: this.certificates.pem('admin', 'crt'),
      keyPem: this.certificates.pem('admin', 'key'),
    };
    const server = `https://127.0.0.1:${firstPort}`;
    writeFileSync(this.#kubeconfig, kubeconfigText({ server, ...identity }, 'alone'), { mode: 0o600 });
    writeFileSync(join(this.dir, 'audit-policy.json'), JSON.stringify(auditPolicy));
    mkdirSync(join(this.dir, 'etcd'), { mode: 0o700 });
    this.#run('etcd', 'etcd', [
      `--data-dir=${join(this.dir, 'etcd')}`,
      `--listen-client-urls=${servers.map(etcdUrl).join(',')}`,
      `--advertise-client-urls=${etcdUrl(1)}`,
      '--unsafe-no-fsync',
    ]);
    await this.startServer(1, signal);
    this.#run('kube-controller-manager', 'kube-controller-manager', [
      `--kubeconfig=${this.#kubeconfig}`,
      '--leader-elect=false',
      `--service-account-private-key-file=${this.certificates.file('sa', 'key')}`,
      `--root-ca-file=${this.certificates.file('ca', 'crt')}`,
    ]);
  }

  #serverArguments(server: number, identity: Certificates): string[] {
    const file = (name: string, end: 'crt' | 'key' | 'pub') => this.certificates.file(name, end);
    return [
      `--etcd-servers=${etcdUrl(server)}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.port(server)}`,
      '--advertise-address=192.0.2.1',
      `--tls-cert-file=${identity.file('apiserver', 'crt')}`,
      `--tls-private-key-file=${identity.file('apiserver', 'key')}`,
      `--client-ca-file=${file('ca', 'crt')}`,
      '--authorization-mode=RBAC',
      `--service-account-key-file=${file('sa', 'pub')}`,
      `--service-account-signing-key-file=${file('sa', 'key')}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--allow-privileged=true',
      `--audit-policy-file=${join(this.dir, 'audit-policy.json')}`,
      `--audit-log-path=${this.auditLog(server)}`,
    ];
  }

  async #isReady(server: number, signal: AbortSignal): Promise<boolean> {
    const { command, args } = inNetns(this.netns, 'curl', ['-sk', '--fail', `https://127.0.0.1:${this.port(server)}/readyz`]);
    return (await runAnyway(command, args, {}, signal)).code === 0;
  }

  async #inside(command: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    const inside = inNetns(this.netns, command, args);
    return await run(inside.command, inside.args, {}, signal);
  }

  #run(name: string, program: string, args: readonly string[], folder = this.#programs): void {
    const inside = inNetns(this.netns, join(folder, program), args);
    const files = { logFile: join(this.dir, `${name}.log`), pidFile: join(this.dir, `${name}.pid`) };
    this.#running.set(name, startInBackground({ ...inside, ...files }));
  }

  async #end(name: string): Promise<void> {
    const running = this.#running.get(name);
    this.#running.delete(name);
    if (running !== undefined) await endProcesses([running], graceMs);
  }
}

/** The certificate of an API server, from this authority. */
export async function signServer(authority: Certificates, signal: AbortSignal): Promise<void> {
  await authority.sign({ name: 'apiserver', commonName: 'kube-apiserver', alternatives: ['127.0.0.1', 'localhost'] }, signal);
}
