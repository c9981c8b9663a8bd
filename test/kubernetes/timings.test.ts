import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { KubeApi, type UnstructuredObject } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { connectTcpIn } from '../../lab/probe/sockets.ts';
import { runtimeMetrics } from '../../lab/real-kubernetes/node-files.ts';
import { pause } from '../../src/base/async/pause.ts';
import { print, RealCluster } from './cluster.ts';
import { pod } from './objects.ts';
import { configureAgents, RealKubeProxy } from './real-kube-proxy.ts';

/*
 * Durations without imitations: a pod of a real kubelet and containerd, compared with the reference plugins in the same containerd, in
 * turn; and Services, compared with a real kube-proxy on the same node, in turn. It prints figures, which are for docs/records/performance,
 * and asserts only success.
 */

const dir = labFolderOf('timings');
const limit = AbortSignal.timeout(2_400_000);
const patience = { timeout: 90_000, interval: 200 };
const node = 'node-1';
const podsEach = 20;
const changesEach = 15;
const turns = 2;
const webPort = 8080;
/**
 * A connection whose first packet is too early has no answer, so others are begun meanwhile: at this interval, each abandoned after a while
 * (ms).
 */
const tryEveryMs = 5;
const tryMs = 100;
/** Configuration of the reference plugins; it sorts before ours, so containerd uses it while it exists. */
const peerFile = '00-peer.conflist';
const peerSubnet = '10.89.0.0/16';
const peerList = {
  cniVersion: '1.0.0',
  name: 'peer',
  plugins: [
    {
      type: 'bridge',
      bridge: 'peer0',
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: 'host-local', ranges: [[{ subnet: peerSubnet }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
    { type: 'bandwidth', capabilities: { bandwidth: true } },
  ],
};

let cluster: RealCluster;
let api: KubeApi;
const pods = new Map<string, UnstructuredObject>();
const stop = new AbortController();

beforeAll(async () => {
  cluster = await RealCluster.up({ dir, nodes: 1, families: 'ipv4' }, limit);
  api = new KubeApi(await readKubeconfig(labPaths(cluster.plan.dir).kubeconfig));
  const nothing = () => undefined;
  void api.follow('/api/v1/namespaces/default/pods', pods, nothing, nothing, stop.signal);
}, 600_000);
afterAll(async () => {
  stop.abort();
  api?.close();
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

type Network = 'seine' | 'bridge';

it('starts pods', { timeout: 1_200_000 }, async () => {
  await startedPod('warm-up');
  const figures = { seine: noFigures(), bridge: noFigures() };
  for (let turn = 0; turn < 2 * turns; turn += 1) {
    const network: Network = turn % 2 === 0 ? 'seine' : 'bridge';
    await useNetwork(network);
    const before = await setUpOf();
    for (let at = 0; at < podsEach / turns; at += 1) {
      const started = await startedPod(`${network}-${turn}-${at}`);
      figures[network].readyMs.push(started.readyMs);
      figures[network].packetMs.push(started.packetMs);
    }
    const after = await setUpOf();
    figures[network].setUpMs.push((1_000 * (after.seconds - before.seconds)) / (after.count - before.count));
  }
  await useNetwork('seine');
  for (const [network, { readyMs, packetMs, setUpMs }] of Object.entries(figures))
    print(
      `${network}: a pod created until Ready ${spread(readyMs)}, until its first packet ${spread(packetMs)}; SetUpPod, as containerd counts it, ${spread(setUpMs)} (means of turns)`,
    );
  expect(figures.seine.readyMs).toHaveLength(podsEach);
});

it('serves Services', { timeout: 1_200_000 }, async () => {
  const kubeProxy = new RealKubeProxy(cluster);
  await configureAgents(cluster, {});
  await cluster.apply([
    pod({ name: 'web', app: 'web', nodeName: node, args: ['netexec'] }),
    pod({ name: 'client', app: 'client', nodeName: node }),
  ]);
  await cluster.wait(120, '--for=condition=Ready', 'pod/web', 'pod/client');
  const figures = { seine: noServiceFigures(), 'kube-proxy': noServiceFigures() };
  try {
    for (let turn = 0; turn < 2 * turns; turn += 1) {
      const server = turn % 2 === 0 ? 'seine' : 'kube-proxy';
      if (server === 'seine') await kubeProxy.stop().then(() => kubeProxy.cleanUp());
      else kubeProxy.start('nftables');
      await expect
        .poll(() => cluster.onNode(node, 'seinectl', 'status'), patience)
        .toMatch(server === 'seine' ? /proxyAll\W+on$/m : /proxyAll\W+off: kube-proxy serves/m);
      for (let at = 0; at < changesEach; at += 1) {
        const { comesMs, goesMs } = await changedService(`${server}-${turn}-${at}`);
        figures[server].comesMs.push(comesMs);
        figures[server].goesMs.push(goesMs);
      }
    }
  } finally {
    await kubeProxy.stop();
  }
  for (const [server, { comesMs, goesMs }] of Object.entries(figures))
    print(
      `${server}: a Service created until its first connection ${spread(comesMs)}; its endpoint gone until its last connection ${spread(goesMs)}`,
    );
  expect(figures['kube-proxy'].goesMs).toHaveLength(turns * changesEach);
});

const noFigures = () => ({ readyMs: [] as number[], packetMs: [] as number[], setUpMs: [] as number[] });
const noServiceFigures = () => ({ comesMs: [] as number[], goesMs: [] as number[] });

/** Median, minimum and maximum. */
function spread(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const [least = 0, median = 0, most = 0] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  return `${median.toFixed(0)} ms (${least.toFixed(0)} to ${most.toFixed(0)})`;
}

/** containerd reloads the folder after changes, in its own time: pods are created until one has the requested network. */
async function useNetwork(network: Network): Promise<void> {
  const file = join(nodePaths(cluster.plan.dir, node).cniConfFolder, peerFile);
  if (network === 'bridge') writeFileSync(file, JSON.stringify(peerList));
  else rmSync(file, { force: true });
  let tries = 0;
  await expect
    .poll(async () => (await startedPod(`${network}-try-${performance.now().toFixed(0)}-${tries++}`)).network, patience)
    .toBe(network);
}

interface StartedPod {
  readonly network: Network;
  readonly readyMs: number;
  readonly packetMs: number;
}

/** Creates a pod, waits until it is ready and reachable from its node, and deletes it. */
async function startedPod(name: string): Promise<StartedPod> {
  const wanted = pod({ name, app: 'timed', nodeName: node, args: ['netexec'] });
  const fromMs = performance.now();
  await api.send({ method: 'POST', path: '/api/v1/namespaces/default/pods', body: wanted }, limit);
  const address = await untilKnown(() => statusOf(name).podIP);
  const packet = connectedAtMs(cluster.plan.nodes[0]?.netns ?? '', address, webPort).then((atMs) => atMs - fromMs);
  await untilKnown(() => statusOf(name).conditions?.find(({ type, status }) => type === 'Ready' && status === 'True'));
  const readyMs = performance.now() - fromMs;
  const packetMs = await packet;
  await api.send({ method: 'DELETE', path: `/api/v1/namespaces/default/pods/${name}` }, limit);
  await untilKnown(() => (pods.has(`default/${name}`) ? undefined : true));
  return { network: address.startsWith('10.89.') ? 'bridge' : 'seine', readyMs, packetMs };
}

interface PodStatus {
  readonly podIP?: string;
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

function statusOf(name: string): PodStatus {
  return (pods.get(`default/${name}`)?.status ?? {}) as PodStatus;
}

async function untilKnown<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await pause(1, limit);
    limit.throwIfAborted();
  }
}

async function connects(netns: string, address: string, port: number): Promise<boolean> {
  const socket = await connectTcpIn(netns, address, port, AbortSignal.timeout(tryMs)).catch(() => undefined);
  socket?.resetAndDestroy();
  return socket !== undefined;
}

interface Tried {
  /** Time of the first established connection; undefined while there is none. */
  readonly firstMs: number | undefined;
  /** Start time of the last established connection; `fromMs` while there is none. */
  readonly lastMs: number;
}

/** Begins one connection after another without waiting for earlier ones, until the condition is true. */
async function tryingConnections(
  [netns, address, port]: readonly [netns: string, address: string, port: number],
  isEnough: (tried: Tried) => boolean,
): Promise<Tried> {
  const tried: { firstMs: number | undefined; lastMs: number } = { firstMs: undefined, lastMs: performance.now() };
  const trying = new Set<Promise<void>>();
  while (!isEnough(tried)) {
    const begunMs = performance.now();
    const one = connects(netns, address, port)
      .then((isMade) => {
        if (!isMade) return;
        tried.firstMs ??= performance.now();
        tried.lastMs = Math.max(tried.lastMs, begunMs);
      })
      .finally(() => trying.delete(one));
    trying.add(one);
    await pause(tryEveryMs, limit);
    limit.throwIfAborted();
  }
  await Promise.all(trying);
  return tried;
}

/** @returns time of the first established connection */
async function connectedAtMs(...way: [netns: string, address: string, port: number]): Promise<number> {
  return (await tryingConnections(way, ({ firstMs }) => firstMs !== undefined)).firstMs ?? Number.NaN;
}

/** @returns start time of the last connection that was established: all later ones failed */
async function lastConnectedMs(...way: [netns: string, address: string, port: number]): Promise<number> {
  return (await tryingConnections(way, ({ lastMs }) => performance.now() - lastMs > 3 * tryMs)).lastMs;
}

/** Calls and seconds of `SetUpPod`, in total. Source: containerd's metrics, `cri` of its documentation on metrics. */
async function setUpOf(): Promise<{ readonly count: number; readonly seconds: number }> {
  const text = await cluster.onNode(node, 'curl', '-sS', '--fail', `http://${runtimeMetrics}/v1/metrics`);
  const of = (what: string) =>
    Number(new RegExp(`^\\w*network_plugin_operations_duration\\w*_${what}\\{[^}]*set_?up_?pod[^}]*\\} (\\S+)`, 'im').exec(text)?.[1]);
  return { count: of('count'), seconds: of('sum') };
}

/** A Service with a handmade endpoint: created, reached by a pod, its endpoint removed, and deleted. */
async function changedService(name: string): Promise<{ readonly comesMs: number; readonly goesMs: number }> {
  const { netns } = await cluster.pod('client');
  const services = '/api/v1/namespaces/default/services';
  const slices = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
  const metadata = { name, labels: { 'kubernetes.io/service-name': name } };
  const endpoint = { addresses: [statusOf('web').podIP ?? ''], nodeName: node, conditions: { ready: true } };
  const slice = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, addressType: 'IPv4', ports: [{ port: webPort }] };
  await api.send({ method: 'POST', path: slices, body: { ...slice, endpoints: [endpoint] } }, limit);
  const createdMs = performance.now();
  const body = { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec: { ports: [{ port: 80, targetPort: webPort }] } };
  const made = (await api.send({ method: 'POST', path: services, body }, limit)) as { readonly spec: { readonly clusterIP: string } };
  const comesMs = (await connectedAtMs(netns, made.spec.clusterIP, 80)) - createdMs;
  const goneMs = performance.now();
  const contentType = 'application/merge-patch+json';
  await api.send({ method: 'PATCH', path: `${slices}/${name}`, body: { endpoints: [] }, contentType }, limit);
  const goesMs = (await lastConnectedMs(netns, made.spec.clusterIP, 80)) - goneMs;
  for (const path of [`${services}/${name}`, `${slices}/${name}`]) await api.send({ method: 'DELETE', path }, limit);
  return { comesMs, goesMs };
}
