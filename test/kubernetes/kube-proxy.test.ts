import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { connectTcpIn } from '../../lab/probe/sockets.ts';
import { print, RealCluster } from './cluster.ts';
import { onlyFrom, pod, service } from './objects.ts';
import { configureAgents, type KubeProxyMode, RealKubeProxy } from './real-kube-proxy.ts';
import { type Cost, TrafficCourse } from './under-traffic.ts';

/*
 * Seine and a real kube-proxy on the same nodes: each takes over Services from the other under traffic, and policy distinguishes external
 * clients from the node despite kube-proxy's masquerading.
 */

const dir = labFolderOf('kube-proxy');
const limit = AbortSignal.timeout(2_400_000);
const patience = { timeout: 90_000, interval: 500 };
const connectWithinMs = 3_000;
const triesEach = 6;
const webPort = 8080;
const webNodePort = 30_080;
const modes = ['nftables', 'iptables'] as const satisfies readonly KubeProxyMode[];

let cluster: RealCluster;
let kubeProxy: RealKubeProxy;
let traffic: TrafficCourse;

beforeAll(async () => {
  cluster = await RealCluster.up({ dir, nodes: 2, families: process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6' }, limit);
  kubeProxy = new RealKubeProxy(cluster);
  traffic = new TrafficCourse(cluster);
  await traffic.prepareServiceAlone();
  const [first = '', second = ''] = cluster.nodes;
  await cluster.apply([
    pod({ name: 'web-near', app: 'web', nodeName: first, args: ['netexec'] }),
    pod({ name: 'web-far', app: 'web', nodeName: second, args: ['netexec'] }),
    service('web', 'web', [{ port: 80, targetPort: webPort, nodePort: webNodePort }], 'NodePort'),
  ]);
  await cluster.wait(180, '--for=condition=Ready', 'pod', '-l', 'app=web');
  await configureAgents(cluster, {});
  print('agents look for a kube-proxy');
}, 600_000);
afterAll(async () => {
  await kubeProxy?.stop();
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

/** Status of Services of every agent, once all agree. */
async function untilEachReports(beginning: string): Promise<void> {
  for (const node of cluster.nodes)
    await expect
      .poll(async () => await cluster.onNode(node, 'seinectl', 'status'), patience)
      .toMatch(new RegExp(`proxyAll\\W+${beginning}`, 'm'));
}

/** Reports whether new connections succeed: several to each address, because one of several endpoints is chosen. */
async function reached(netns: string, addresses: readonly string[], port: number): Promise<'all' | 'some' | 'none'> {
  const tries = addresses.flatMap((address) => Array.from({ length: triesEach }, () => address));
  const made = await Promise.all(
    tries.map(async (address) => {
      const socket = await connectTcpIn(netns, address, port, AbortSignal.timeout(connectWithinMs)).catch(() => undefined);
      socket?.resetAndDestroy();
      return socket !== undefined;
    }),
  );
  return made.every((each) => each) ? 'all' : made.some((each) => each) ? 'some' : 'none';
}

const hostnameAt = (ip: string): string => `http://${ip.includes(':') ? `[${ip}]` : ip}:${webPort}/hostname`;

function losesNoConnection(cost: Cost): void {
  expect([cost.connectsFailed, cost.broken]).toEqual([0, 0]);
}

describe.each(modes)('mode %s', (mode) => {
  it('hands Services over to kube-proxy under load', async () => {
    const cost = await traffic.during(`kube-proxy (${mode}) comes`, async () => {
      kubeProxy.start(mode);
      await untilEachReports('off: kube-proxy serves');
    });
    losesNoConnection(cost);
  });

  it('treats external clients that kube-proxy masquerades as external, and the node as the node', async () => {
    const [node] = cluster.plan.nodes;
    const { ips } = await cluster.pod('web-near');
    const fromExternal = async () => await reached(cluster.plan.external.netns, node?.ips ?? [], webNodePort);
    const fromNode = async () => await reached(node?.netns ?? '', ips, webPort);
    await expect.poll(fromExternal, patience).toBe('all');
    await cluster.apply([onlyFrom('client', 'web')]);
    await expect.poll(fromExternal, patience).toBe('none');
    expect(await fromNode()).toBe('all');
    for (const ip of ips) expect(await cluster.exec('client', 'curl', '-s', '-m', '5', hostnameAt(ip))).toMatch(/^web-/);
    expect(await fromExternal()).toBe('none');
    await cluster.kubectl('delete', 'networkpolicy', 'only-client');
    await expect.poll(fromExternal, patience).toBe('all');
  });

  it('takes Services back under load', async () => {
    const cost = await traffic.during(`kube-proxy (${mode}) goes`, async () => {
      await configureAgents(cluster, { proxyAll: true });
      await untilEachReports('on, with a kube-proxy');
      await kubeProxy.stop();
      await kubeProxy.cleanUp();
      await untilEachReports('on$');
    });
    losesNoConnection(cost);
    await configureAgents(cluster, {});
    await untilEachReports('on$');
  });
});
