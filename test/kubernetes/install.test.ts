import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterRole } from 'kubernetes-types/rbac/v1.d.ts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { controlPlanePaths, runtimePaths } from '../../lab/real-kubernetes/paths.ts';
import { agentImage } from '../runtime/image-builder.ts';
import { alertRules, expressions } from '../support/observability.ts';
import { asAgentOf } from './agent-account.ts';
import { askedByAgents, grantsOf, type Starting } from './audit.ts';
import { print, RealCluster } from './cluster.ts';
import { Installation, page } from './installation.ts';
import { nodeState } from './node-state.ts';
import { onlyFrom, pageObjects, pod, probedPods, service } from './objects.ts';
import { commandOf, commandsOf } from './page-commands.ts';
import { looked, Pages } from './pages.ts';
import { RealPrometheus } from './prometheus.ts';
import { agentPods, stopsAtOneNode, stopsBecause, undo, untilUniform } from './roll-out.ts';
import { triedPages } from './tried-pages.ts';
import { type Cost, TrafficCourse } from './under-traffic.ts';

/*
 * An installation as a user makes one: a real Kubernetes without a network, images that are built, the manifest, and the commands of the
 * pages. Everything installed runs in pods of real DaemonSets, with the rights of their service account. One sequence: each part begins
 * where the previous one has ended.
 */

const dir = labFolderOf('install');
const limit = AbortSignal.timeout(3_000_000);
const patience = 180;
const times = 3;
const pollMs = { timeout: 60_000, interval: 500 };

let cluster: RealCluster;
let installation: Installation;
let traffic: TrafficCourse;
let first = '';
let second = '';
/** Starts of the API server, except its first. */
const starts: Starting[] = [];
let before: readonly (readonly [node: string, state: Awaited<ReturnType<typeof nodeState>>])[];

const states = async () => await Promise.all(cluster.nodes.map(async (node) => [node, await nodeState(cluster, node)] as const));

beforeAll(async () => {
  print('a Kubernetes without a network');
  cluster = await RealCluster.up({ dir, nodes: 2, bare: true, families: process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6' }, limit);
  [first = '', second = ''] = cluster.nodes;
  installation = new Installation(cluster);
  await cluster.importImages(process.env['SEINE_TEST_IMAGES'] ?? 'none: npm run test:kubernetes builds them');
  before = await states();
  print('images are on the nodes');
}, 1_500_000);
afterAll(async () => {
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

it('finds nodes that wait for a network, and pods that wait for nodes', async () => {
  const status = await cluster.kubectl('get', 'nodes', '-o', `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`);
  expect(status).toBe(cluster.nodes.map(() => 'False').join(' '));
  const dns = await cluster.kubectl('-n', 'kube-system', 'get', 'pods', '-o', 'jsonpath={.items[*].status.phase}');
  expect(dns).toBe('Pending Pending');
});

it('is installed by the commands of the page', async () => {
  await installation.apply();
  await installation.untilReady(patience);
  // It never ends by itself.
  expect(await cluster.type(`timeout 3 ${commandOf(page, 'Install', 'kubectl get nodes')} || test $? = 124`)).toContain('Ready');
  expect(await cluster.type(commandOf(page, 'Install', 'kubectl -n seine-system exec'))).toContain('READY');
});

it('starts CoreDNS', async () => await installation.untilNamesAreServed(patience));

it('lets pods of both nodes reach each other', async () => {
  traffic = new TrafficCourse(cluster);
  await traffic.prepare();
  for (const ip of (await cluster.pod('far')).ips) await expect.poll(async () => await cluster.pings('client', ip), pollMs).toBe(true);
});

it('lets probes of every kind pass, and a pod with one that fails is restarted', async () => {
  const fails = { httpGet: { path: '/hostname', port: 8080 }, failureThreshold: 3 };
  await cluster.apply([...probedPods(second), pod({ name: 'fails', app: 'fails', nodeName: second, probe: fails })]);
  await cluster.wait(patience, '--for=condition=Ready', 'pod', '-l', 'app=probed');
  print('probes by http, tcp, exec and grpc pass');
  const restarts = (label: string) =>
    cluster.kubectl('get', 'pods', '-l', label, '-o', 'jsonpath={.items[*].status.containerStatuses[*].restartCount}');
  await expect.poll(async () => Number(await restarts('app=fails')), { timeout: 180_000, interval: 1_000 }).toBeGreaterThan(0);
  expect(await restarts('app=probed')).toBe('0 0 0 0');
  await cluster.kubectl('delete', 'pod', '-l', 'app in (probed, fails)', '--wait=false');
});

it('gives a static pod its network', async () => {
  const { staticPods } = runtimePaths(cluster.plan, second);
  mkdirSync(staticPods, { recursive: true });
  const file = join(staticPods, 'static.json');
  writeFileSync(file, JSON.stringify(pod({ name: 'static', app: 'static', args: ['netexec'] })));
  const name = `static-${second}`;
  await expect.poll(async () => await cluster.kubectlAnyway('get', 'pod', name), pollMs).toContain('Running');
  await cluster.wait(patience, '--for=condition=Ready', `pod/${name}`);
  for (const ip of (await cluster.pod(name)).ips)
    expect(await curl(`http://${ip.includes(':') ? `[${ip}]` : ip}:8080/hostname`)).toBe(name);
  rmSync(file);
  await cluster.wait(patience, '--for=delete', `pod/${name}`);
});

it('serves Services by name, and enforces NetworkPolicy', async () => {
  await cluster.apply([
    ...cluster.nodes.map((node) => pod({ name: `web-${node}`, app: 'web', nodeName: node, args: ['netexec'] })),
    pod({ name: 'stranger', app: 'stranger', nodeName: first }),
    service('web', 'web', [{ port: 80, targetPort: 8080 }]),
  ]);
  await cluster.wait(patience, '--for=condition=Ready', 'pod', '-l', 'app in (web, stranger)');
  await expect.poll(async () => await curl('http://web/hostname'), pollMs).toMatch(/^web-/);
  await cluster.apply([onlyFrom('client', 'web')]);
  await expect.poll(async () => await curl('http://web/hostname', 'stranger'), pollMs).toContain('exit code 28');
  expect(await curl('http://web/hostname')).toMatch(/^web-/);
  await cluster.kubectl('delete', 'networkpolicy', 'only-client');
  await expect.poll(async () => await curl('http://web/hostname', 'stranger'), pollMs).toMatch(/^web-/);
});

it('permits an agent its own node, and nothing of others', async () => {
  const agent = await asAgentOf(cluster, first);
  const patch = async (node: string, status: object) => await agent('PATCH', `/api/v1/nodes/${node}/status`, { status });
  const condition = { type: 'NetworkUnavailable', status: 'False', reason: 'SeineIsUp', message: 'tried by a test' };
  expect(await patch(first, { conditions: [condition] })).toBe('done');
  expect(await patch(second, { conditions: [condition] })).toContain(`the agent of node ${first} may not write to node ${second}`);
  expect(await patch(first, { capacity: { cpu: '99' } })).toContain('an agent changes nothing of a status but its condition');
  expect(await agent('GET', '/api/v1/secrets')).toMatch(/cannot list resource .*secrets/);
  expect(await agent('GET', '/api/v1/namespaces/seine-system/configmaps/seine-live')).toMatch(/cannot get resource .*configmaps/);
  expect(await agent('DELETE', '/api/v1/namespaces/default/pods/near')).toMatch(/cannot delete resource .*pods/);
});

/**
 * Restarts that cost no traffic, by docs/reliability.md and docs/upgrade.md: repeats the fault up to three times, because a busy host loses
 * packets of the userspace data path by itself, and the cost of a fault recurs each time.
 */
async function costsNothing(name: string, fault: () => Promise<void>): Promise<void> {
  let cost: Cost | undefined;
  for (let time = 1; time <= times; time += 1) {
    cost = await traffic.during(name, fault);
    if (isNothing(cost)) return;
  }
  expect([cost?.connectsFailed, cost?.broken, cost?.udpLost]).toEqual([0, 0, 0]);
}

/** Datagrams may be lost by the userspace data path when the host is busy. */
function isNothing({ connectsFailed, broken, udpLost, udpSent }: Cost): boolean {
  return connectsFailed === 0 && broken === 0 && udpLost <= udpSent / 50;
}

it('loses nothing while kubelet, containerd, the agent and the API server are restarted', async () => {
  for (const program of ['kubelet', 'containerd'] as const) {
    const restarted = async () => {
      await cluster.lab(program, first, 'kill');
      await cluster.lab(program, first, 'start');
      await cluster.wait(patience, '--for=condition=Ready', `node/${first}`);
    };
    await costsNothing(`${program} killed and started`, restarted);
  }
  const apiServer = async () => {
    await cluster.lab('apiserver', 'stop');
    const fromMs = Date.now();
    await cluster.lab('apiserver', 'start');
    starts.push({ fromMs, toMs: Date.now() });
    await cluster.wait(patience, '--for=condition=Ready', 'nodes', '--all');
  };
  await costsNothing('API server stopped and started', apiServer);
  const since = 'jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}';
  const ready = async () => await cluster.kubectl('get', 'node', first, '-o', since);
  const readyBefore = await ready();
  await costsNothing('the pod of the agent deleted', async () => await replaced('seine-agent'));
  expect(await ready(), 'the node became NotReady').toBe(readyBefore);
});

it('forwards again once the pod of Open vSwitch was replaced', async () => {
  const cost = await traffic.during('the pod of Open vSwitch deleted', async () => {
    await replaced('seine-ovs');
    await cluster.wait(patience, '--for=condition=Ready', 'pod', '-n', 'seine-system', '-l', 'app=seine-agent');
  });
  expect(cost.connectsFailed).toBeLessThan(cost.connects);
  const restarts = await cluster.kubectl('get', 'pods', '-o', 'jsonpath={.items[*].status.containerStatuses[*].restartCount}');
  expect(restarts).toMatch(/^[0 ]+$/);
});

/** Deletes Seine's pod on the first node, and waits for its replacement. */
async function replaced(app: string): Promise<void> {
  const old = await cluster.podOf(app, first);
  await cluster.kubectl('-n', 'seine-system', 'delete', old);
  await expect.poll(async () => await cluster.podOf(app, first), pollMs).toMatch(/^pod\/\S+$/);
  await cluster.wait(patience, '--for=condition=Ready', '-n', 'seine-system', await cluster.podOf(app, first));
}

it('stops at one node with a missing image, and recovers by rollout undo', async () => {
  const usual = await untilUniform(cluster);
  await costsNothing('an image that is not there, and rollout undo', async () => {
    await installation.apply('', installation.imageOptions('seine.invalid/agent:none'));
    const broken = await stopsAtOneNode(cluster, ({ waits }) => /ImagePull/.test(waits));
    expect(await cluster.kubectl('-n', 'seine-system', 'describe', 'pod', broken.name)).toContain('seine.invalid/agent:none');
    await undo(cluster);
    await untilUniform(cluster);
  });
  expect((await agentPods(cluster)).map(({ config, image }) => [config, image])).toEqual(usual.map(({ config, image }) => [config, image]));
});

it('restores the earlier configuration by rollout undo', async () => {
  const [usual] = await untilUniform(cluster);
  await installation.apply(' --set logLevel=debug');
  const changed = async () => (await agentPods(cluster)).some(({ config, ready }) => ready && config !== usual?.config);
  await expect.poll(changed, { timeout: 180_000, interval: 500 }).toBe(true);
  await undo(cluster);
  const back = await untilUniform(cluster);
  expect(new Set(back.map(({ config }) => config))).toEqual(new Set([usual?.config]));
});

it('stops at one node with a wrong value, where pods are served as before, and recovers', async () => {
  await untilUniform(cluster);
  await costsNothing('a wrong value, and rollout undo', async () => {
    await cluster.type(installation.renderCommand(' --set logLevel=debug'));
    // The API server makes ConfigMaps of nodes immutable: a rendering by another program has another name.
    await cluster.type(`sed -i -E 's/logLevel: "debug"/logLevel: "loud"/; s/seine-config-[0-9a-f]+/seine-config-loud/' seine.yaml`);
    await cluster.type(commandOf(page, 'Install', 'kubectl apply'));
    await stopsBecause(cluster, 'the last configuration that could be used');
    await undo(cluster);
    await untilUniform(cluster);
  });
});

const pages = () => new Pages(cluster, { node: first, peer: second, rendered: (command) => installation.withOptions(command) });

it('has the objects that pages name', async () => {
  await cluster.apply(pageObjects(looked, first));
  await cluster.wait(patience, '-n', looked.namespace, '--for=condition=Ready', 'pod', '--all');
});

it('follows docs/reference/metrics.md', async () => await pages().run('docs/reference/metrics.md'));

it('is scraped by a Prometheus that is configured as on that page, and evaluates all alerts and panels', async () => {
  await untilUniform(cluster);
  const prometheus = new RealPrometheus(cluster);
  expect(await prometheus.checkRules()).toContain(`${alertRules().length} rules found`);
  await prometheus.start();
  try {
    const up = async () => (await prometheus.query('up{job="seine-agent"} == 1')).map(({ metric }) => metric['instance']).toSorted();
    await expect.poll(async () => await up().catch(String), pollMs).toEqual(cluster.nodes.toSorted());
    const evaluated = async () => (await prometheus.rules()).map(({ name, health }) => `${name}: ${health}`).toSorted();
    await expect.poll(evaluated, pollMs).toEqual(
      alertRules()
        .map(({ alert }) => `${alert}: ok`)
        .toSorted(),
    );
    const series = await Promise.all(expressions().map(async ({ where, expr }) => [where, (await prometheus.query(expr)).length] as const));
    const empty = series.filter(([where, count]) => where.startsWith('panel ') && count === 0).map(([where]) => where);
    print(`${series.length} expressions of alerts and panels; without a series: ${empty.join(', ') || 'none'}`);
    const paused = async () => (await prometheus.rules()).find(({ name }) => name === 'SeineRepairPaused')?.state;
    await expect.poll(paused, pollMs).toBe('inactive');
    const agent = await cluster.podOf('seine-agent', first);
    await cluster.kubectl('-n', 'seine-system', 'exec', agent, '-c', 'agent', '--', 'seinectl', 'pause', '--for', '10m');
    await expect.poll(paused, pollMs).toMatch(/pending|firing/);
    await cluster.kubectl('-n', 'seine-system', 'exec', agent, '-c', 'agent', '--', 'seinectl', 'resume');
    await expect.poll(paused, pollMs).toBe('inactive');
  } finally {
    prometheus.stop();
  }
});

it.each(Object.keys(triedPages).filter((each) => each !== 'docs/reference/metrics.md'))('follows %s', async (each) => {
  await pages().run(each);
  await untilUniform(cluster);
});

it('follows alerts and sentences', async () => {
  expect(await pages().runNamed()).toBeGreaterThan(25);
});

it('rejects no request of agents, and grants nothing unused', async () => {
  const { used, refused } = askedByAgents(controlPlanePaths(cluster.plan.dir).auditLog, starts);
  expect(refused).toEqual([]);
  const role = JSON.parse(await cluster.kubectl('get', 'clusterrole', 'seine-agent', '-o', 'json')) as ClusterRole;
  const granted = grantsOf(role);
  expect([...used].filter((each) => !granted.has(each))).toEqual([]);
  // A server of this version streams what older ones list; a pod is requested by name if the runtime was faster than the watch.
  // ClusterNetworkPolicies are not served here.
  const isOptional = (each: string): boolean => each === 'get pods' || each.endsWith('.policy.networking.k8s.io');
  const unused = [...granted].filter((each) => !used.has(each) && !each.startsWith('list ') && !isOptional(each));
  expect(unused).toEqual([]);
  const policies = ['get', 'validatingadmissionpolicies', '-l', 'app.kubernetes.io/part-of=seine', '-o'];
  const warnings =
    'jsonpath={range .items[*]}{.metadata.name} {.status.observedGeneration} {.status.typeChecking.expressionWarnings}{"\\n"}{end}';
  expect(await cluster.kubectl(...policies, warnings)).toMatch(/^(seine-agent-\w+ \d+ \n){2}$/);
});

it('stops at one node without permissions, and continues with them', async () => {
  await untilUniform(cluster);
  await cluster.kubectl('delete', 'clusterrolebinding', 'seine-agent');
  await cluster.type('kubectl -n seine-system rollout restart daemonset/seine-agent');
  await stopsBecause(cluster, 'not all sources have been synced');
  await installation.apply();
  await cluster.kubectl('-n', 'seine-system', 'rollout', 'status', 'daemonset/seine-agent', `--timeout=${2 * patience}s`);
});

it('recovers a node after all its processes were killed at once', async () => {
  await traffic.prepare();
  const restarts = () => cluster.kubectl('get', 'pod', 'far', '-o', 'jsonpath={.status.containerStatuses[0].restartCount}');
  const was = Number(await restarts());
  await cluster.lab('kubelet', second, 'kill');
  await cluster.onNode(second, 'sh', '-c', 'for id in $(ctr -n k8s.io tasks list -q); do ctr -n k8s.io tasks kill -a -s SIGKILL $id; done');
  await cluster.lab('containerd', second, 'kill');
  await cluster.lab('containerd', second, 'start');
  await cluster.lab('kubelet', second, 'start');
  // The API server's state of the node and its pods is old, and correct, until the kubelet has checked.
  await expect.poll(async () => Number(await restarts()), pollMs).toBeGreaterThan(was);
  await untilWhole();
});

it('lets a node be drained, deleted, and rejoin with its name and pod network', async () => {
  await cluster.kubectl('drain', second, '--ignore-daemonsets', '--delete-emptydir-data', '--force', '--timeout=180s');
  const podCIDRs = JSON.parse(await cluster.kubectl('get', 'node', second, '-o', 'jsonpath={.spec.podCIDRs}')) as string[];
  await cluster.lab('kubelet', second, 'stop');
  await cluster.kubectl('delete', 'node', second);
  print(`${second} is gone`);
  await cluster.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name: second }, spec: { podCIDRs, podCIDR: podCIDRs[0] } }]);
  await cluster.lab('kubelet', second, 'start');
  await untilWhole();
});

/** Waits until the second node, its agent and its pod are as before, and checks that nothing is lost. */
async function untilWhole(): Promise<void> {
  await cluster.wait(patience, '--for=condition=Ready', `node/${second}`);
  await untilUniform(cluster);
  await traffic.prepare();
  const address = async () => (await cluster.kubectl('get', 'pod', 'far', '-o', 'jsonpath={.status.podIP}')).trim();
  await expect.poll(async () => (await cluster.pod('far')).ips.includes(await address()), pollMs).toBe(true);
  await traffic.prepare();
  await costsNothing(`${second} is whole again`, async () => undefined);
}

it('leaves nothing when it is uninstalled by the page', async () => {
  const uninstall = 'docs/installation/uninstall.md';
  await cluster.kubectl('delete', 'pods', '--all', '--now');
  await cluster.kubectl('delete', 'namespace', looked.namespace, '--ignore-not-found');
  await cluster.kubectl('-n', 'kube-system', 'scale', 'deployment/coredns', '--replicas=0');
  await cluster.wait(patience, '--for=delete', 'pod', '-n', 'kube-system', '-l', 'k8s-app=kube-dns');
  for (const command of commandsOf(uninstall, 'Uninstalling')) {
    if (command.startsWith('helm ')) break; // the last are for Helm's users: helm.test.ts
    if (command.startsWith('seinectl ')) continue; // by the DaemonSet, on all nodes
    if (!command.startsWith('npm run render')) print(await cluster.type(command));
    else await cluster.type(command.replace(/--agent-image \S+/, `--agent-image ${agentImage}`));
  }
  for (const [node, was] of before) await expect.poll(async () => await nodeState(cluster, node), pollMs).toEqual(was);
  expect(await cluster.kubectlAnyway('get', 'namespace', 'seine-system')).toContain('NotFound');
});

/** Response that a pod gets, or the exit code of curl. */
async function curl(url: string, from = 'client'): Promise<string> {
  const output = await cluster.kubectlAnyway('exec', from, '--', 'curl', '-s', '-m', '5', url);
  return output.trim();
}
