import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import type { ConfigMap } from 'kubernetes-types/core/v1.d.ts';
import { parseAllDocuments } from 'yaml';
import { manifestParts, manifestText } from '../../build/manifests/manifest.ts';
import { defaultOptions, type ManifestOptions, namespace } from '../../build/manifests/options.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { labMark } from '../../lab/machine/process.ts';
import { agentConfig } from '../../lab/node/agent.ts';
import { labPaths } from '../../lab/plan/names.ts';
import { agentToken } from '../support/agent-token.ts';
import { agentImage, ovsImage } from './image-builder.ts';
import type { PodSurroundings } from './pod-grants.ts';
import type { RuntimeLab } from './runtime-lab.ts';

const execute = promisify(execFile);

/** The applied objects, as sent to the API server. */
export interface Applied {
  readonly configMaps: readonly ConfigMap[];
  readonly daemonSets: readonly DaemonSet[];
}

/** Prepares a node like an administrator's: no agent and no Open vSwitch runs, no plugin is installed. */
export async function takeAwayTheLabsOwn(runtimes: RuntimeLab, node: number, signal: AbortSignal): Promise<void> {
  await runtimes.lab.agent(node, 'stop');
  await runtimes.lab.killOvs(node, 'all');
  const place = runtimes.place(node);
  const bin = place.path('/opt/cni/bin');
  for (const name of readdirSync(bin)) rmSync(join(bin, name));
  // Folders that the lab's nodes share are each node's own here.
  for (const name of ['openvswitch', 'seine']) {
    const own = join(place.folder, 'run', name);
    for (const folder of [own, join('/run', name)]) mkdirSync(folder, { recursive: true });
    await place.run('mount', ['--bind', own, `/run/${name}`], signal);
    await place.run('mount', ['--make-shared', `/run/${name}`], signal); // as all of /run is under systemd
  }
  mkdirSync(place.path('/var/lib/openvswitch'), { recursive: true });
}

export async function kubectl(runtimes: RuntimeLab, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execute('kubectl', ['--kubeconfig', labPaths(runtimes.lab.plan.dir).kubeconfig, ...args]);
  return stdout;
}

/** Differences of the lab from a cluster of hosts. */
export function manifestOptions(runtimes: RuntimeLab): ManifestOptions {
  const { plan } = runtimes.lab;
  const ofLab = agentConfig(plan, runtimes.lab.node(1));
  const kept = ['serviceCIDR', 'serviceCIDRv6', 'transportInterface', 'proxy', 'tunnelType'];
  return {
    ...defaultOptions,
    agentImage,
    ovsImage,
    imagePullPolicy: 'Never',
    dataPath: plan.datapath,
    apiServer: plan.management.apiServerUrl,
    agent: Object.fromEntries(Object.entries(ofLab).filter(([key]) => kept.includes(key))),
  };
}

export async function applyManifest(runtimes: RuntimeLab): Promise<Applied> {
  const path = join(runtimes.lab.plan.dir, 'seine.yaml');
  writeFileSync(path, manifestText(manifestParts(manifestOptions(runtimes))));
  await kubectl(runtimes, 'apply', '--validate=strict', '-f', path);
  const objects = parseAllDocuments(readFileSync(path, 'utf8')).map((document) => document.toJS() as { kind?: string });
  return {
    configMaps: objects.filter((object): object is ConfigMap => object.kind === 'ConfigMap'),
    daemonSets: objects.filter((object): object is DaemonSet => object.kind === 'DaemonSet'),
  };
}

/** A kubelet's facts about a pod's environment. */
export async function surroundings(
  runtimes: RuntimeLab,
  node: number,
  configMaps: readonly ConfigMap[],
  signal: AbortSignal,
): Promise<PodSurroundings> {
  const { kubeconfig } = labPaths(runtimes.lab.plan.dir);
  const { caPem = '' } = await readKubeconfig(kubeconfig);
  const nodeName = runtimes.lab.node(node).name;
  return {
    nodeName,
    configMaps,
    account: { token: await agentToken(kubeconfig, nodeName, signal), caPem, namespace },
    // Served by the agent itself, so useless to it.
    apiService: { host: '10.96.0.1', port: 443 },
    env: { [labMark]: runtimes.lab.plan.id },
    cgroupParent: runtimes.cgroupParent,
  };
}
