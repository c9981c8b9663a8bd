import { say } from '../cluster.ts';
import { commandOf } from '../page-commands.ts';
import { ignoredChecks, page } from './kubeadm.ts';
import type { Machine } from './machine.ts';
import type { KubeadmScene } from './scene.ts';

const heading = 'Upgrade Kubernetes';
const patience = '180s';

/** Upgrades a cluster of the version before with the commands of the page: kubeadm first, then each node's kubelet. */
export async function upgradeKubernetes(scene: KubeadmScene, signal: AbortSignal): Promise<void> {
  const { current, before } = scene.programs;
  await scene.pushKubernetes(current);
  const [first, ...others] = scene.machines.all;
  if (first === undefined) throw new Error('there are no machines');
  const ignored = `--ignore-preflight-errors=${Object.keys(ignoredChecks).join(',')}`;
  const type = async (machine: Machine, command: string) => {
    say(`${machine.name} $ ${command}`);
    await machine.run(['sh', '-ec', command], { env: { KUBECONFIG: '/etc/kubernetes/admin.conf' } }, signal);
  };
  const upgradeKubelet = async (machine: Machine) => {
    scene.machines.install(machine, current);
    await type(machine, commandOf(page, heading, 'systemctl restart'));
    const version = `jsonpath={.status.nodeInfo.kubeletVersion}=v${current.version}`;
    await scene.cluster.kubectl('wait', `--timeout=${patience}`, `--for=${version}`, `node/${machine.name}`);
  };
  scene.machines.install(first, { kubeadm: current.kubeadm, kubelet: before.kubelet });
  const apply = commandOf(page, heading, 'kubeadm upgrade apply').replace('VERSION', `v${current.version}`);
  await type(first, `${apply} --yes ${ignored}`);
  await upgradeKubelet(first);
  for (const machine of others) {
    scene.machines.install(machine, { kubeadm: current.kubeadm, kubelet: before.kubelet });
    await type(machine, `${commandOf(page, heading, 'kubeadm upgrade node')} ${ignored}`);
    await upgradeKubelet(machine);
  }
}
