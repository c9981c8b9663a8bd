import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { agentImage, buildImages, ovsImage, podman, releaseStorage } from '../runtime/image-builder.ts';
import { BareCluster, say } from './cluster.ts';
import { commandOf } from './page-commands.ts';

/*
 * An installation as a user makes one: a real Kubernetes without a network, images that are built, the manifest, and the commands of the
 * pages. What runs afterwards runs in pods of real DaemonSets, with the rights of their service account.
 */

const page = 'docs/install.md';
const dir = '/run/seine-install';
const limit = AbortSignal.timeout(3_000_000);
const patience = 180;
const tests = 'registry.k8s.io/e2e-test-images/agnhost:2.66.1';

let cluster: BareCluster;

beforeAll(async () => {
  say('images of agent and Open vSwitch');
  await buildImages(limit);
  say('a Kubernetes without a network');
  cluster = await BareCluster.up({ dir, nodes: 2, families: process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6' }, limit);
  const archive = join(cluster.folder, 'images.tar');
  await podman(['save', '--quiet', '--multi-image-archive', '--output', archive, agentImage, ovsImage], limit);
  await releaseStorage(limit);
  await cluster.importImages(archive);
  say('images are on the nodes');
}, 1_500_000);
afterAll(async () => {
  if (process.env['SEINE_TEST_KEEP'] === undefined) await BareCluster.down(dir, AbortSignal.timeout(120_000));
}, 180_000);

it('finds nodes that wait for a network, and pods that wait for nodes', async () => {
  const status = await cluster.kubectl('get', 'nodes', '-o', `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`);
  expect(status).toBe(cluster.nodes.map(() => 'False').join(' '));
  const dns = await cluster.kubectl('-n', 'kube-system', 'get', 'pods', '-o', 'jsonpath={.items[*].status.phase}');
  expect(dns).toBe('Pending Pending');
});

it('is installed by the commands of the page', async () => {
  const images = commandOf(page, 'Images', 'npm run render');
  const render = commandOf(page, 'kubeadm', 'npm run render');
  const ofImages = images.replace(/^npm run render -- /, '').replace(/ -o .*$/, '');
  const names = ofImages.replace(/\S+\/agent:\S+/, agentImage).replace(/\S+\/ovs:\S+/, ovsImage);
  const server = new URL(cluster.plan.management.apiServerUrl).hostname;
  await cluster.type(`${render.replace('CONTROL-PLANE-ADDRESS', server)} ${names} --datapath netdev --set transportInterface=br-phy`);
  await cluster.type(commandOf(page, 'kubeadm', 'kubectl apply'));
  await cluster.wait(patience, '--for=condition=Ready', 'nodes', '--all');
  say('nodes are Ready');
  await cluster.wait(patience, '--for=condition=Ready', 'pod', '-n', 'seine-system', '--all');
  say('agents are ready');
  expect(await cluster.type(commandOf(page, 'kubeadm', 'kubectl -n seine-system exec'))).toContain('READY');
});

it('brings CoreDNS up', async () => {
  await cluster.kubectl('-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', `--timeout=${patience}s`);
});

it('lets pods of both nodes reach each other', async () => {
  await cluster.apply(cluster.nodes.map((node) => waitingPod(`on-${node}`, node)));
  await cluster.wait(patience, '--for=condition=Ready', 'pod', '-l', 'app=waits');
  const [first = '', second = ''] = cluster.nodes;
  const from = await cluster.pod(`on-${first}`);
  for (const ip of (await cluster.pod(`on-${second}`)).ips) {
    const all = async () => (await cluster.exec(from.name, 'ping', '-n', '-c', '3', '-i', '0.2', ip)).includes(' 0% packet loss');
    // The userspace data path drops the first packet to a node that it has not met.
    await expect.poll(all, { timeout: 60_000 }).toBe(true);
  }
});

function waitingPod(name: string, nodeName: string): object {
  const spec = { nodeName, terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image: tests, args: ['pause'] }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app: 'waits' } }, spec };
}
