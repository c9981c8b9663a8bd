import { expect } from 'vitest';
import { commandOf } from '../page-commands.ts';
import { agentPods } from '../roll-out.ts';
import { type KubeadmScene, labOptions, type SeineImages } from './scene.ts';

const page = 'docs/installation/kube-proxy-replacement.md';
const steps = 'Steps';
const patience = { timeout: 120_000, interval: 500 };

/** Waits until every agent reports who serves Services. @param beginning of the text after `proxyAll` */
export async function untilProxyAll({ cluster }: KubeadmScene, beginning: string): Promise<void> {
  for (const { name } of await agentPods(cluster)) {
    const status = async () => await cluster.kubectl('-n', 'seine-system', 'exec', name, '-c', 'agent', '--', 'seinectl', 'status');
    await expect.poll(status, patience).toMatch(new RegExp(`proxyAll\\W+${beginning}`, 'm'));
  }
}

/** Hands Services over from kube-proxy to Seine with the commands of the page. */
export async function replaceKubeProxy(scene: KubeadmScene, images: SeineImages, signal: AbortSignal): Promise<void> {
  const { cluster } = scene;
  await cluster.type(`${scene.filled(commandOf(page, steps, 'npm run render'), images)} ${labOptions}`);
  for (const command of ['kubectl apply', 'kubectl -n seine-system rollout']) await cluster.type(commandOf(page, steps, command));
  await untilProxyAll(scene, 'on, with a kube-proxy');
  await cluster.type(commandOf(page, steps, 'kubectl -n kube-system delete'));
  const daemonPods = ['-n', 'kube-system', 'pod', '-l', 'k8s-app=kube-proxy'];
  await cluster.wait(patience.timeout / 1_000, '--for=delete', ...daemonPods);
  const image = `${scene.registry.host}/kube-proxy:v${scene.programs.current.version}`;
  const cleanUp = commandOf(page, 'With the program of kube-proxy', 'ctr').replace('IMAGE-OF-KUBE-PROXY', image);
  for (const machine of scene.machines.all) {
    await machine.run(['sh', '-ec', cleanUp], {}, signal);
    expect(await machine.run(['nft', 'list', 'tables'], {}, signal)).not.toContain('kube-proxy');
  }
  await untilProxyAll(scene, 'on$');
}

/** Records with the command of the page that the cluster has no kube-proxy. */
export async function recordReplacement({ cluster }: KubeadmScene): Promise<void> {
  await cluster.type(commandOf(page, 'kubeadm', 'kubectl -n kube-system get configmap'));
}
