import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/converge-lab.ts';
import { print, type RealCluster } from './cluster.ts';
import { recordReplacement, replaceKubeProxy, untilProxyAll } from './kubeadm/kube-proxy.ts';
import { answersEverywhere, serve, stopServing } from './kubeadm/reachability.ts';
import { KubeadmScene, type SeineImages } from './kubeadm/scene.ts';
import { pod, service } from './objects.ts';
import { TrafficCourse } from './under-traffic.ts';

/*
 * A cluster with two control-plane nodes that kubeadm made with kube-proxy: Seine next to kube-proxy, then instead of it by the commands of the page, under
 * traffic; then one API server goes and comes back. One story: each part begins where the one before has ended.
 */

const name = 'kubeadm-kube-proxy';
const limit = AbortSignal.timeout(3_000_000);
const longMs = 900_000;
const patienceMs = 180_000;
const manifests = '/etc/kubernetes/manifests';

let scene: KubeadmScene;
let cluster: RealCluster;
let images: SeineImages;

beforeAll(async () => {
  scene = await KubeadmScene.up({ name, nodes: 2 }, limit);
  ({ cluster } = scene);
  images = await scene.pushSeine();
}, 900_000);
afterAll(async () => await KubeadmScene.down(name), 360_000);

const fromFirst = async (...words: readonly string[]) => await scene.first.run(words, {}, limit);

it('creates a cluster with kube-proxy on two control-plane nodes', { timeout: longMs }, async () => {
  await scene.create(scene.programs.current, { withKubeProxy: true, controlPlanes: 2 });
  const controllers = await cluster.kubectl('get', 'nodes', '-l', 'node-role.kubernetes.io/control-plane', '-o', 'name');
  expect(controllers).toBe('node/node-1\nnode/node-2\n');
  for (const program of ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'])
    await cluster.wait(patienceMs / 1_000, '-n', 'kube-system', '--for=condition=Ready', 'pod', '-l', `component=${program}`);
  const path = 'jsonpath={.items[*].endpoints[*].addresses[*]}';
  const servers = async () =>
    (await cluster.kubectl('get', 'endpointslices', '-l', 'kubernetes.io/service-name=kubernetes', '-o', path)).split(' ');
  await expect.poll(servers, { timeout: patienceMs }).toHaveLength(2);
});

it('is installed next to kube-proxy, which serves Services', { timeout: longMs }, async () => {
  await scene.installManifest(images, { withKubeProxy: true });
  expect(await scene.check()).toContain('No problems.');
  await untilProxyAll(scene, 'off: kube-proxy serves');
  await serve(cluster);
  await answersEverywhere(cluster);
  await stopServing(cluster); // a pod of the traffic has the same name, on another node
});

let traffic: TrafficCourse;

it('replaces kube-proxy by the page, and no packet is lost', { timeout: longMs }, async () => {
  traffic = new TrafficCourse(cluster);
  await traffic.prepareServiceAlone();
  const cost = await traffic.during('Seine replaces kube-proxy', async () => await replaceKubeProxy(scene, images, limit));
  expect([cost.udpLost, cost.connectsFailed, cost.broken]).toEqual([0, 0, 0]);
});

it('stays without kube-proxy when kubeadm installs its add-ons', { timeout: longMs }, async () => {
  await recordReplacement(scene);
  const { version } = scene.programs.current;
  await fromFirst('kubeadm', 'upgrade', 'apply', 'phase', 'addon', 'all', `v${version}`);
  expect(await cluster.kubectlAnyway('-n', 'kube-system', 'get', 'daemonset', 'kube-proxy')).toContain('not found');
});

/** A pod of the second node behind a Service of both families. @returns when the first node reaches the pod by each address of the Service */
async function serveLate(): Promise<void> {
  const [first = '', second = ''] = cluster.nodes;
  await cluster.apply([
    pod({ name: 'late', app: 'late', nodeName: second, args: ['netexec'] }),
    service('late', 'late', [{ port: 80, targetPort: 8080 }]),
  ]);
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', 'pod/late');
  const addresses = (await cluster.kubectl('get', 'service', 'late', '-o', 'jsonpath={.spec.clusterIPs[*]}')).trim().split(' ');
  expect(addresses).toHaveLength(2);
  for (const address of addresses) {
    const target = `http://${address.includes(':') ? `[${address}]` : address}/hostname`;
    const hostname = async () => await cluster.onNode(first, 'curl', '-gs', '-m', '5', target).catch(String);
    await expect.poll(hostname, { timeout: patienceMs }).toBe('late');
  }
  print('a pod and a Service are new, and the first node reaches them, without the first API server');
}

it('serves, and both nodes follow changes, while the first API server is away', { timeout: longMs }, async () => {
  const [first, second] = scene.machines.all;
  if (first === undefined || second === undefined) throw new Error('there are not two machines');
  const livez = async () => await cluster.kubectlAnyway('--server', `https://${first.node.managementIp}:6443`, 'get', '--raw', '/livez');
  const cost = await traffic.during('the first API server goes and comes back', async () => {
    await scene.machines.balance([second], limit);
    await fromFirst('mv', `${manifests}/kube-apiserver.yaml`, '/etc/kubernetes/');
    await until(
      async () => (await livez()).includes('refused'),
      patienceMs,
      () => 'the first API server stays',
    );
    await serveLate();
    await fromFirst('mv', '/etc/kubernetes/kube-apiserver.yaml', manifests);
    await until(
      async () => (await livez()) === 'ok',
      patienceMs,
      () => 'the first API server does not come back',
    );
    await scene.machines.balance([first, second], limit);
  });
  expect([cost.udpLost, cost.connectsFailed, cost.broken]).toEqual([0, 0, 0]);
  expect(await scene.check()).toContain('No problems.');
});
