import { until } from '../../support/converge-lab.ts';
import { print } from '../cluster.ts';
import { commandOf } from '../page-commands.ts';
import { ignoredChecks, page } from './kubeadm.ts';
import type { Machine } from './machine.ts';
import type { KubeadmScene } from './scene.ts';

const heading = 'Upgrade Kubernetes';
const patienceMs = 180_000;

/** Upgrades a cluster of the version before with the commands of the page: kubeadm first, then each node's kubelet. */
export async function upgradeKubernetes(scene: KubeadmScene, signal: AbortSignal): Promise<void> {
  const { current, before } = scene.programs;
  await scene.pushKubernetes(current);
  const [first, ...others] = scene.machines.all;
  if (first === undefined) throw new Error('there are no machines');
  const ignored = `--ignore-preflight-errors=${Object.keys(ignoredChecks).join(',')}`;
  const type = async (machine: Machine, command: string) => {
    const { code, printed } = await typed(machine, command, signal);
    if (code !== 0) throw new Error(`${command} on ${machine.name}: exit code ${code}: ${printed}`);
  };
  const upgradeKubelet = async (machine: Machine) => {
    scene.machines.install(machine, current);
    await type(machine, commandOf(page, heading, 'systemctl restart'));
    const version = `jsonpath={.status.nodeInfo.kubeletVersion}=v${current.version}`;
    await scene.cluster.kubectl('wait', `--timeout=${patienceMs / 1_000}s`, `--for=${version}`, `node/${machine.name}`);
  };
  scene.machines.install(first, { kubeadm: current.kubeadm, kubelet: before.kubelet });
  const apply = commandOf(page, heading, 'kubeadm upgrade apply').replace('VERSION', `v${current.version}`);
  await type(first, `${apply} --yes ${ignored}`);
  await upgradeKubelet(first);
  for (const machine of others) {
    scene.machines.install(machine, { kubeadm: current.kubeadm, kubelet: before.kubelet });
    await typeUntilDone(machine, `${commandOf(page, heading, 'kubeadm upgrade node')} ${ignored}`, signal);
    await upgradeKubelet(machine);
  }
}

async function typed(machine: Machine, command: string, signal: AbortSignal) {
  print(`${machine.name} $ ${command}`);
  const env = { KUBECONFIG: '/etc/kubernetes/admin.conf' };
  const { code, stdout, stderr } = await machine.runAnyway(['sh', '-ec', command], { env }, signal);
  return { code, printed: `${stdout}${stderr}`.slice(-2_000) };
}

/** Repeats a command until it succeeds: the API server of the only control-plane node restarts some time after its kubelet, and kubeadm asks for a retry. */
async function typeUntilDone(machine: Machine, command: string, signal: AbortSignal): Promise<void> {
  let last = '';
  const succeeds = async () => {
    const { code, printed } = await typed(machine, command, signal);
    last = printed;
    return code === 0;
  };
  await until(succeeds, patienceMs, () => last);
}
