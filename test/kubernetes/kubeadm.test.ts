import { afterAll, beforeAll, expect, it } from 'vitest';
import { print, type RealCluster } from './cluster.ts';
import { otherConfiguration, unreachableRegistry, wrongDigest } from './kubeadm/bad-input.ts';
import { answersEverywhere, serve, stopServing } from './kubeadm/reachability.ts';
import { emptyAfterReset, uninstallByChart, uninstallByManifest } from './kubeadm/removal.ts';
import { KubeadmScene, type SeineImages } from './kubeadm/scene.ts';
import { nodeState } from './node-state.ts';

/*
 * Seine on a cluster of three nodes that kubeadm makes, by the commands of the page, with all images from a registry. One story: each part begins where
 * the one before has ended.
 */

const name = 'kubeadm';
const limit = AbortSignal.timeout(3_000_000);

let scene: KubeadmScene;
let cluster: RealCluster;
let images: SeineImages;
let initialisedMs = 0;
let before: ReadonlyMap<string, unknown>;

beforeAll(async () => {
  scene = await KubeadmScene.up({ name, nodes: 3 }, limit);
  ({ cluster } = scene);
  images = await scene.pushSeine();
}, 900_000);
afterAll(async () => await KubeadmScene.down(name), 360_000);

/** The kubelet has chains in these tables, and neither it nor `kubeadm reset` removes them. */
const ofKubelet = /^table ip6? (filter|mangle|nat)$/;

async function stateOf(node: string): Promise<unknown> {
  const state = await nodeState(cluster, node);
  return { ...state, tables: state['tables']?.filter((table) => !ofKubelet.test(table)) };
}

async function areAsBefore(): Promise<void> {
  for (const [node, was] of before) await expect.poll(async () => await stateOf(node), { timeout: 60_000 }).toEqual(was);
}

it('creates a dual-stack cluster without kube-proxy and joins workers', async () => {
  before = new Map(await Promise.all(cluster.nodes.map(async (node) => [node, await stateOf(node)] as const)));
  initialisedMs = await scene.create(scene.programs.current);
  print(`both workers joined ${Math.round(performance.now() - initialisedMs)} ms after kubeadm init`);
  expect(await cluster.kubectlAnyway('-n', 'kube-system', 'get', 'daemonset', 'kube-proxy')).toContain('not found');
  expect(await cluster.kubectl('get', 'nodes', '-o', 'name')).toBe('node/node-1\nnode/node-2\nnode/node-3\n');
});

it('is installed from the manifest, whose images containerd pulls by digest', async () => {
  const startedMs = performance.now();
  await scene.installManifest(images);
  const readyMs = performance.now();
  print(
    `nodes are Ready ${Math.round(readyMs - initialisedMs)} ms after kubeadm init, ${Math.round(readyMs - startedMs)} ms after the manifest was rendered`,
  );
  expect(await scene.check()).toContain('No problems.');
  const pulled = await cluster.onNode('node-2', 'ctr', '-n', 'k8s.io', 'images', 'list', '-q');
  expect(pulled.split('\n')).toContain(scene.registry.byDigest(images.agent));
});

it('gives pods and Services a network', async () => {
  await serve(cluster);
  await answersEverywhere(cluster);
});

it('names the configuration of another network on a node', async () => await otherConfiguration(scene));

it('stops at one node with a digest that the registry does not have', async () => await wrongDigest(scene, images));

it('waits for a registry that is not reachable, and continues', async () => await unreachableRegistry(scene, images, limit));

it('is removed by the page, and leaves nothing', async () => {
  await stopServing(cluster);
  await uninstallByManifest(scene, images);
  await areAsBefore();
});

it('is installed and removed with Helm by the page', async () => {
  await scene.installChart(images);
  expect(await scene.check()).toContain('No problems.');
  await serve(cluster);
  await answersEverywhere(cluster);
  await stopServing(cluster);
  await uninstallByChart(scene);
  await areAsBefore();
});

it('leaves machines as they were after kubeadm reset', async () => {
  for (const machine of scene.machines.all.toReversed()) await scene.kubeadm.reset(machine);
  for (const machine of scene.machines.all) expect(await emptyAfterReset(machine, limit)).toEqual([]);
  await areAsBefore();
});
