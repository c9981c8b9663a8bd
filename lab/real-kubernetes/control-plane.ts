import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { KubeApi } from '../kube/kube-api.ts';
import { type ApiCredentials, kubeconfigText } from '../kube/kubeconfig.ts';
import { startInBackground } from '../machine/background.ts';
import { livingProcess, writeFileWhole } from '../machine/files.ts';
import { inNetns, ipBatch } from '../machine/netns.ts';
import { endProcesses, runAnyway } from '../machine/process.ts';
import { addressing, type ControlPlanePrograms, type LabPlan } from '../plan/plan.ts';
import { type CertificateSubject, Certificates } from './certificates.ts';
import {
  auditPolicy,
  type ControlPlaneProgram,
  controlPlaneAddresses,
  controlPlaneArguments,
  controlPlanePrograms,
  serviceAddress,
} from './control-plane-arguments.ts';
import { controlPlanePaths } from './paths.ts';

const answerDeadlineMs = 120_000;
const pollMs = 100;
const graceMs = 5_000;

/** Etcd, API server, controllers and scheduler of one lab, all in its namespace `mgmt`. They outlive this process. */
export class ControlPlane {
  readonly certificates: Certificates;
  readonly #plan: LabPlan;
  readonly #programs: ControlPlanePrograms;
  readonly #paths;

  constructor(plan: LabPlan, programs: ControlPlanePrograms) {
    this.#plan = plan;
    this.#programs = programs;
    this.#paths = controlPlanePaths(plan.dir);
    this.certificates = new Certificates(this.#paths.pki);
  }

  /** Credentials of an administrator. @param server as seen from the client */
  administrator(server: string): ApiCredentials {
    return { server, ...this.#identity('admin'), serverName: 'kubernetes' };
  }

  /** The text of a kubeconfig for one of the names that have a certificate. */
  kubeconfig(name: string, server: string): string {
    return kubeconfigText({ server, ...this.#identity(name), serverName: 'kubernetes' }, `seine-lab-${this.#plan.id}`);
  }

  /** Starts what does not run, and resolves when the API server answers. @param fromMachine credentials that work from this process */
  async start(fromMachine: ApiCredentials, signal: AbortSignal): Promise<void> {
    await wireControlPlane(this.#plan, signal);
    for (const user of ['kube-controller-manager', 'kube-scheduler'])
      writeFileWhole(this.#paths.kubeconfig(user), this.kubeconfig(user, `https://127.0.0.1:${addressing.apiServerPort}`));
    mkdirSync(this.#paths.etcd, { recursive: true, mode: 0o700 });
    this.#run('etcd');
    this.#run('kube-apiserver');
    await this.#answering(fromMachine, signal);
    this.#run('kube-controller-manager');
    this.#run('kube-scheduler');
  }

  /** Certificates of the control plane and of every node. */
  async prepare(signal: AbortSignal): Promise<void> {
    mkdirSync(this.#paths.dir, { recursive: true, mode: 0o700 });
    writeFileWhole(this.#paths.auditPolicy, JSON.stringify(auditPolicy));
    await this.certificates.make(signal);
    await Promise.all(subjectsOf(this.#plan).map((subject) => this.certificates.sign(subject, signal)));
  }

  async stopApiServer(): Promise<void> {
    const running = livingProcess(this.#paths.pidFile('kube-apiserver'));
    if (running === undefined) throw new SeineError('INVALID_INPUT', 'the API server does not run');
    await endProcesses([running], graceMs);
  }

  async startApiServer(fromMachine: ApiCredentials, signal: AbortSignal): Promise<void> {
    this.#run('kube-apiserver');
    await this.#answering(fromMachine, signal);
  }

  #identity(name: string): Pick<ApiCredentials, 'caPem' | 'certificatePem' | 'keyPem'> {
    const { certificates } = this;
    return { caPem: certificates.pem('ca', 'crt'), certificatePem: certificates.pem(name, 'crt'), keyPem: certificates.pem(name, 'key') };
  }

  #run(program: ControlPlaneProgram): void {
    const { [program]: wanted } = controlPlaneArguments(this.#plan, this.#paths, this.certificates);
    const inside = inNetns(this.#plan.management.netns, join(this.#programs.programs, program), wanted);
    startInBackground({ ...inside, logFile: this.#paths.logFile(program), pidFile: this.#paths.pidFile(program) });
  }

  /** @throws SeineError `UNAVAILABLE` naming the program that ended, and its log */
  async #answering(fromMachine: ApiCredentials, signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + answerDeadlineMs;
    const api = new KubeApi(fromMachine);
    try {
      for (;;) {
        if (await isReady(api, signal)) return;
        const ended = controlPlanePrograms.slice(0, 2).find((program) => livingProcess(this.#paths.pidFile(program)) === undefined);
        if (ended !== undefined) throw new SeineError('UNAVAILABLE', `${ended} ended; see ${this.#paths.logFile(ended)}`);
        if (performance.now() > deadline)
          throw new SeineError('UNAVAILABLE', `the API server is not ready; see ${this.#paths.logFile('kube-apiserver')}`);
        await sleep(pollMs, undefined, { signal });
      }
    } finally {
      api.close();
    }
  }
}

/** The object that the API server creates last when it starts, and that controllers and scheduler require. */
const lastRule = '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/system::extension-apiserver-authentication-reader';

/** Reports whether the server answers and has created its own objects: earlier clients are rejected because their rules are missing. */
async function isReady(api: KubeApi, signal: AbortSignal): Promise<boolean> {
  try {
    await api.send({ method: 'GET', path: '/api/v1/namespaces/default' }, signal);
    await api.send({ method: 'GET', path: lastRule }, signal);
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

function subjectsOf(plan: LabPlan): CertificateSubject[] {
  const alternatives = [
    '127.0.0.1',
    'localhost',
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    plan.management.ip,
    ...controlPlaneAddresses(plan.families),
    ...serviceAddress(plan, 1n),
  ];
  return [
    { name: 'apiserver', commonName: 'kube-apiserver', alternatives },
    { name: 'admin', commonName: 'seine-lab', organization: 'system:masters' },
    { name: 'kubelet-client', commonName: 'kube-apiserver-kubelet-client', organization: 'system:masters' },
    { name: 'front-proxy', commonName: 'front-proxy' },
    { name: 'kube-controller-manager', commonName: 'system:kube-controller-manager' },
    { name: 'kube-scheduler', commonName: 'system:kube-scheduler' },
    ...plan.nodes.map(({ name }) => ({ name, commonName: `system:node:${name}`, organization: 'system:nodes' })),
  ];
}

/** Creates a link to the nodes' network: the API server reaches kubelets and pods there, and pods reach it. */
async function wireControlPlane(plan: LabPlan, signal: AbortSignal): Promise<void> {
  const { netns } = plan.management;
  const there = await runAnyway('ip', ['-n', netns, 'link', 'show', 'eth0'], {}, signal);
  if (there.code === 0) return;
  await ipBatch(plan.external.netns, [`link add ucp type veth peer name eth0 netns ${netns}`, 'link set ucp master ul0 up'], signal);
  const addresses = plan.families.map((family) => {
    const { prefixLength } = addressing.transport[family];
    return `addr add ${addressing.controlPlane[family]}/${prefixLength} dev eth0${family === 'ipv6' ? ' nodad' : ''}`;
  });
  await ipBatch(netns, ['link set eth0 up', ...addresses], signal);
  for (const [place, link] of [
    [netns, 'eth0'],
    [plan.external.netns, 'ucp'],
  ] as const) {
    const inside = inNetns(place, 'ethtool', ['-K', link, 'tx', 'off']);
    await runAnyway(inside.command, inside.args, {}, signal);
  }
}

/** The route from the control plane to the pods of a node, like a node's. */
export async function routeToPods(
  plan: LabPlan,
  ways: readonly { readonly podCidr: string; readonly via: string }[],
  signal: AbortSignal,
): Promise<void> {
  await ipBatch(
    plan.management.netns,
    ways.map(({ podCidr, via }) => `route replace ${podCidr} via ${via} dev eth0`),
    signal,
  );
}
