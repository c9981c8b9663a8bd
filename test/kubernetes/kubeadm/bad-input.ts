import { expect } from 'vitest';
import { until } from '../../support/converge-lab.ts';
import { print, type RealCluster } from '../cluster.ts';
import { pod } from '../objects.ts';
import { agentPods, stopsAtOneNode, undo, untilUniform } from '../roll-out.ts';
import type { KubeadmScene, SeineImages } from './scene.ts';

const patienceMs = 120_000;
const otherNetwork = '/etc/cni/net.d/05-other.conflist';

/** Events and states of a pod of an agent, as `kubectl describe` prints them. */
async function described(cluster: RealCluster, pod: string): Promise<string> {
  return await cluster.kubectl('-n', 'seine-system', 'describe', 'pod', pod);
}

/** Applies the manifest with images that cannot be pulled, and expects words in the description of the one pod that fails. */
async function failsToPull(scene: KubeadmScene, images: SeineImages, cause: RegExp): Promise<void> {
  const { cluster } = scene;
  await scene.render(images);
  await cluster.type('kubectl apply -f seine.yaml');
  const { name } = await stopsAtOneNode(cluster, ({ waits }) => /ImagePull/.test(waits));
  let text = '';
  const names = async () => {
    text = await described(cluster, name);
    return cause.test(text);
  };
  await until(names, patienceMs, () => `the events do not name the cause:\n${text.slice(-3_000)}`);
  print(`kubectl describe: ${cause.exec(text)?.[0]}`);
}

/** A digest that the registry does not have. */
export async function wrongDigest(scene: KubeadmScene, images: SeineImages): Promise<void> {
  const agent = { ...images.agent, digest: `sha256:${'0'.repeat(64)}` };
  await failsToPull(scene, { ...images, agent }, /Failed to pull image .*: not found/);
  await undo(scene.cluster);
  await untilUniform(scene.cluster);
}

/** A registry that does not answer, and does again: the kubelet continues without help. */
export async function unreachableRegistry(scene: KubeadmScene, images: SeineImages, signal: AbortSignal): Promise<void> {
  const { cluster, registry } = scene;
  const agent = await registry.pushVariant(images.agent, 'seine/agent:variant', signal);
  await registry.stop();
  await failsToPull(scene, { ...images, agent }, /Failed to pull image .*connection refused/);
  await registry.start(signal);
  const image = registry.byDigest(agent);
  const runs = async () => (await agentPods(cluster)).some((each) => each.image === image && each.ready);
  await until(runs, patienceMs * 3, () => 'the agent is not pulled after the registry answers');
  await undo(cluster);
  await untilUniform(cluster);
}

/** The configuration of another network, whose name sorts before Seine's: pods fail, and `seinectl check` names file and remedy. */
export async function otherConfiguration(scene: KubeadmScene): Promise<void> {
  const { cluster } = scene;
  const node = cluster.nodes.at(-1) ?? '';
  const list = JSON.stringify({ cniVersion: '1.0.0', name: 'other', plugins: [{ type: 'other-network' }] });
  await cluster.onNode(node, 'sh', '-c', `echo '${list}' > ${otherNetwork}`);
  await cluster.apply([pod({ name: 'late', app: 'late', nodeName: node })]);
  let text = '';
  const fails = async () => {
    text = await cluster.kubectl('describe', 'pod', 'late');
    return text.includes('failed to find plugin "other-network"');
  };
  await until(fails, patienceMs, () => text.slice(-3_000));
  const agent = await cluster.podOf('seine-agent', node);
  const reported = await cluster.kubectlAnyway('-n', 'seine-system', 'exec', agent, '-c', 'agent', '--', 'seinectl', 'check');
  print(
    reported
      .split('\n')
      .filter((line) => line.includes('05-other'))
      .join('\n'),
  );
  expect(reported).toContain(`${otherNetwork} precedes 10-seine.conflist`);
  expect(reported).toContain(`mv ${otherNetwork} ${otherNetwork}.disabled`);
  await cluster.onNode(node, 'mv', otherNetwork, `${otherNetwork}.disabled`);
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', 'pod/late');
  await cluster.onNode(node, 'rm', `${otherNetwork}.disabled`);
  await cluster.kubectl('delete', 'pod', 'late', '--now');
}
