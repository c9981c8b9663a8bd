import { until } from '../../support/converge-lab.ts';
import { commandsOf } from '../page-commands.ts';
import type { Machine } from './machine.ts';
import { type KubeadmScene, labOptions, type SeineImages } from './scene.ts';

const page = 'docs/installation/uninstall.md';
const heading = 'Uninstalling';
const patienceS = 180;

/** Folders that `kubeadm reset` empties. */
const emptied = ['/etc/kubernetes/manifests', '/etc/kubernetes/pki', '/var/lib/kubelet', '/var/lib/etcd'];

/** Ends what uses the network of pods. */
async function endPods({ cluster }: KubeadmScene): Promise<void> {
  await cluster.kubectl('-n', 'kube-system', 'scale', 'deployment/coredns', '--replicas=0');
  await cluster.wait(patienceS, '--for=delete', 'pod', '-n', 'kube-system', '-l', 'k8s-app=kube-dns');
}

/** Removes Seine with the commands of the page for the manifest. */
export async function uninstallByManifest(scene: KubeadmScene, images: SeineImages): Promise<void> {
  await endPods(scene);
  for (const command of commandsOf(page, heading)) {
    if (command.startsWith('helm ')) break; // the commands after these are for installations with Helm
    if (command.startsWith('seinectl ')) continue; // the DaemonSet does the same
    const isRendered = command.startsWith('npm run render');
    const image = `--agent-image ${scene.registry.byDigest(images.agent)} ${labOptions}`;
    await scene.cluster.type(isRendered ? command.replace(/--agent-image \S+/, image) : command);
  }
  await restartNames(scene);
}

/** Removes Seine with the commands of the page for Helm. */
export async function uninstallByChart(scene: KubeadmScene): Promise<void> {
  await endPods(scene);
  const commands = commandsOf(page, heading);
  for (const command of commands.slice(commands.findIndex((each) => each.startsWith('helm ')))) {
    await scene.helm(command);
    if (command.startsWith('helm upgrade')) await untilAgentsAreGone(scene);
  }
  await scene.cluster.wait(patienceS, '--for=delete', 'namespace/seine-system');
  await restartNames(scene);
}

async function untilAgentsAreGone({ cluster }: KubeadmScene): Promise<void> {
  let left = '';
  const gone = async () => {
    left = await cluster.kubectl('-n', 'seine-system', 'get', 'daemonsets', '-o', 'name');
    return left.includes('seine-cleanup') && !left.includes('seine-agent');
  };
  await until(gone, patienceS * 1_000, () => `there are ${left}`);
}

/** CoreDNS waits for the next network. */
async function restartNames({ cluster }: KubeadmScene): Promise<void> {
  await cluster.kubectl('-n', 'kube-system', 'scale', 'deployment/coredns', '--replicas=2');
}

/** @returns files and processes of Kubernetes that are left on a machine */
export async function emptyAfterReset(machine: Machine, signal: AbortSignal): Promise<readonly string[]> {
  const find = `for folder in ${emptied.join(' ')}; do [ ! -e $folder ] || find $folder -mindepth 1; done`;
  const files = await machine.run(['sh', '-c', find], {}, signal);
  const containers = await machine.run(['ctr', '-n', 'k8s.io', 'tasks', 'list', '-q'], {}, signal);
  return `${files}\n${containers}`.split('\n').filter((line) => line !== '');
}
