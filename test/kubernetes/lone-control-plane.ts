import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { programFolder } from '../../build/kubernetes/programs.mjs';
import { kubeconfigText } from '../../src/lab/kube/kubeconfig.ts';
import { Certificates } from '../../src/lab/kubernetes/certificates.ts';
import { startInBackground } from '../../src/lab/machine/background.ts';
import { createNetns, deleteNetns, inNetns } from '../../src/lab/machine/netns.ts';
import { endProcesses, type ProcessId, run, runAnyway } from '../../src/lab/machine/process.ts';
import { until } from '../support/converge-lab.ts';

const etcd = 'http://127.0.0.1:2379';
const server = 'https://127.0.0.1:6443';
const patienceMs = 180_000;

/** Etcd, API server and controllers of a real Kubernetes without a node, in a network namespace of their own. Their programs have to be built. */
export class LoneControlPlane {
  /** For what a test writes; gone with it. */
  readonly dir: string;
  readonly #netns = `seine-cp-${randomBytes(3).toString('hex')}`;
  readonly #certificates: Certificates;
  readonly #running: ProcessId[] = [];

  private constructor() {
    this.dir = mkdtempSync('/tmp/seine-control-plane-');
    this.#certificates = new Certificates(join(this.dir, 'pki'));
  }

  static async start(signal: AbortSignal): Promise<LoneControlPlane> {
    const plane = new LoneControlPlane();
    try {
      await plane.#start(signal);
      return plane;
    } catch (error) {
      await plane.remove(AbortSignal.timeout(60_000));
      throw error;
    }
  }

  /** Runs a line in a shell as its administrator, in `dir`. @param tools folders of programs, before those of Kubernetes */
  async type(line: string, tools: readonly string[], signal: AbortSignal): Promise<string> {
    const inside = inNetns(this.#netns, 'sh', ['-ec', `cd ${this.dir}; ${line}`]);
    const path = [...tools, programFolder(), process.env['PATH']].join(delimiter);
    return await run(inside.command, inside.args, { env: { KUBECONFIG: this.#kubeconfig, PATH: path, HOME: this.dir } }, signal);
  }

  async kubectl(args: readonly string[], signal: AbortSignal): Promise<string> {
    const inside = inNetns(this.#netns, join(programFolder(), 'kubectl'), args);
    return await run(inside.command, inside.args, { env: { KUBECONFIG: this.#kubeconfig } }, signal);
  }

  async remove(signal: AbortSignal): Promise<void> {
    await endProcesses(this.#running.toReversed(), 10_000);
    await deleteNetns(this.#netns, signal);
    rmSync(this.dir, { recursive: true, force: true });
  }

  get #kubeconfig(): string {
    return join(this.dir, 'kubeconfig');
  }

  async #start(signal: AbortSignal): Promise<void> {
    await createNetns(this.#netns, signal);
    await this.#certificates.make(signal);
    const alternatives = ['127.0.0.1', 'localhost'];
    await this.#certificates.sign({ name: 'apiserver', commonName: 'kube-apiserver', alternatives }, signal);
    await this.#certificates.sign({ name: 'admin', commonName: 'admin', organization: 'system:masters' }, signal);
    const identity = {
      caPem: this.#certificates.pem('ca', 'crt'),
      certificatePem: this.#certificates.pem('admin', 'crt'),
      keyPem: this.#certificates.pem('admin', 'key'),
    };
    writeFileSync(this.#kubeconfig, kubeconfigText({ server, ...identity }, 'alone'), { mode: 0o600 });
    mkdirSync(join(this.dir, 'etcd'), { mode: 0o700 });
    this.#run('etcd', [
      `--data-dir=${join(this.dir, 'etcd')}`,
      `--listen-client-urls=${etcd}`,
      `--advertise-client-urls=${etcd}`,
      '--unsafe-no-fsync',
    ]);
    this.#run('kube-apiserver', this.#apiServerArguments());
    const isReady = async () => {
      const inside = inNetns(this.#netns, join(programFolder(), 'kubectl'), ['get', '--raw', '/readyz']);
      return (await runAnyway(inside.command, inside.args, { env: { KUBECONFIG: this.#kubeconfig } }, signal)).code === 0;
    };
    await until(isReady, patienceMs, () => `the API server is not ready; its log is in ${this.dir}`);
    this.#run('kube-controller-manager', [
      `--kubeconfig=${this.#kubeconfig}`,
      '--leader-elect=false',
      `--service-account-private-key-file=${this.#certificates.file('sa', 'key')}`,
      `--root-ca-file=${this.#certificates.file('ca', 'crt')}`,
    ]);
  }

  #apiServerArguments(): string[] {
    const file = (name: string, end: 'crt' | 'key' | 'pub') => this.#certificates.file(name, end);
    return [
      `--etcd-servers=${etcd}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=192.0.2.1',
      `--tls-cert-file=${file('apiserver', 'crt')}`,
      `--tls-private-key-file=${file('apiserver', 'key')}`,
      `--client-ca-file=${file('ca', 'crt')}`,
      '--authorization-mode=RBAC',
      `--service-account-key-file=${file('sa', 'pub')}`,
      `--service-account-signing-key-file=${file('sa', 'key')}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      '--service-cluster-ip-range=10.96.0.0/16',
    ];
  }

  #run(program: string, args: readonly string[]): void {
    const inside = inNetns(this.#netns, join(programFolder(), program), args);
    const files = { logFile: join(this.dir, `${program}.log`), pidFile: join(this.dir, `${program}.pid`) };
    this.#running.push(startInBackground({ ...inside, ...files }));
  }
}
