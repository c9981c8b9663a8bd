import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { builtHelm } from '../../build/helm/program.mjs';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { packageRoot } from '../../lab/machine/installation.ts';
import { agentImage, ovsImage } from '../runtime/image-builder.ts';
import { until } from '../support/converge-lab.ts';
import { print, RealCluster } from './cluster.ts';
import { pod, service } from './objects.ts';
import { commandOf } from './page-commands.ts';
import { agentPods, stopsAtOneNode, undo, untilUniform } from './roll-out.ts';

/*
 * The chart by the commands of the pages, with the real `helm` on a real Kubernetes: installed, upgraded, rolled back, broken, and removed,
 * while pods of two nodes communicate. One sequence: each part begins where the previous one has ended.
 */

const page = 'docs/installation/helm.md';
const dir = labFolderOf('helm');
const limit = AbortSignal.timeout(3_000_000);
const patience = 180;
const conflist = '/etc/cni/net.d/10-seine.conflist';
const { plugins: installedPlugins } = JSON.parse(
  readFileSync(join(packageRoot, 'build', 'helm', 'seine', 'files', '10-seine.conflist'), 'utf8'),
) as {
  readonly plugins: readonly object[];
};

let cluster: RealCluster;
let helm = '';

beforeAll(async () => {
  helm = await builtHelm();
  print('a Kubernetes without a network');
  cluster = await RealCluster.up({ dir, nodes: 2, bare: true, families: process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6' }, limit);
  await cluster.importImages(process.env['SEINE_TEST_IMAGES'] ?? 'none: npm run test:kubernetes builds them');
}, 1_500_000);
afterAll(async () => {
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

/** Runs a command of a page as an administrator of this cluster types it. */
async function typed(command: string, more = '', chart = join(packageRoot, 'build', 'helm', 'seine')): Promise<string> {
  const server = new URL(cluster.plan.management.apiServerUrl).hostname;
  const here = command.replace('CONTROL-PLANE-ADDRESS', server).replace('build/helm/seine', chart);
  return await cluster.type(`PATH=${dirname(helm)}:$PATH; ${here} ${more}`);
}

const installed = () => commandOf(page, 'Install', 'helm install');
const upgraded = () => commandOf(page, 'Change and roll back', 'helm upgrade');
const rolledBack = () => commandOf(page, 'Change and roll back', 'helm rollback');
const values = async () => JSON.parse(await typed('helm get values seine --namespace kube-system -o json')) as Record<string, unknown>;

interface Deployed {
  readonly config: string;
  readonly image: string;
}

async function untilDeployed(expected: (now: Deployed) => boolean): Promise<Deployed> {
  let now: Deployed = { config: '', image: '' };
  const asExpected = async () => {
    [now = now] = await untilUniform(cluster);
    return expected(now);
  };
  await until(asExpected, patience * 1_000, () => `deployed is ${JSON.stringify(now)}`);
  return { config: now.config, image: now.image };
}

/** The plugin list that runtimes find, the same on all nodes. */
async function plugins(): Promise<unknown> {
  const texts = await Promise.all(cluster.nodes.map((node) => cluster.onNode(node, 'cat', conflist)));
  expect(new Set(texts).size).toBe(1);
  const { plugins: list } = JSON.parse(texts[0] ?? '') as { readonly plugins: unknown };
  return list;
}

async function inAgents(...command: readonly string[]): Promise<readonly string[]> {
  const pods = await agentPods(cluster);
  return await Promise.all(pods.map(({ name }) => cluster.kubectl('-n', 'seine-system', 'exec', name, '-c', 'agent', '--', ...command)));
}

/** Pods of both nodes answer by their addresses and by a Service, and agents report no problems. */
async function allIsWell(): Promise<void> {
  const answers = async (url: string) => (await cluster.kubectlAnyway('exec', 'client', '--', 'curl', '-gs', '-m', '5', url)).trim();
  for (const node of cluster.nodes)
    for (const ip of (await cluster.pod(`web-${node}`)).ips) {
      const url = `http://${ip.includes(':') ? `[${ip}]` : ip}:8080/hostname`;
      await until(
        async () => (await answers(url)) === `web-${node}`,
        patience * 1_000,
        () => `web-${node} does not answer at ${ip}`,
      );
    }
  await until(
    async () => (await answers('http://web/hostname')).startsWith('web-'),
    patience * 1_000,
    () => 'the Service web does not answer',
  );
  let output: readonly string[] = [];
  const well = async () => {
    output = await inAgents('seinectl', 'status');
    return output.every((text) => text.includes('READY') && text.includes('\nNo problems.\n'));
  };
  await until(well, patience * 1_000, () => output.join('\n'));
  print('pods of both nodes talk; both agents: READY, no problems');
}

/** The lowest level in the agents' logs, which shows their configuration. */
async function isLogged(level: string): Promise<boolean> {
  const pods = await agentPods(cluster);
  const logs = await Promise.all(pods.map(({ name }) => cluster.kubectl('-n', 'seine-system', 'logs', name, '-c', 'agent')));
  return logs.every((log) => log.includes(`"level":"${level}"`));
}

let first: Deployed;
let second: Deployed;

it('is installed by the command of the page', async () => {
  const names = `--set agentImage=${agentImage} --set ovsImage=${ovsImage}`;
  await typed(installed(), `${names} --set datapath=netdev --set agent.transportInterface=br-phy`);
  await cluster.wait(patience, '--for=condition=Ready', 'nodes', '--all');
  await typed(commandOf(page, 'Install', 'kubectl -n seine-system rollout'));
  first = await untilDeployed(() => true);
  expect(await cluster.type(commandOf('docs/installation/manifest.md', 'Install', 'kubectl -n seine-system exec'))).toContain('READY');
  expect(await plugins()).toEqual(installedPlugins);
});

it('gives pods a network', async () => {
  const [first = ''] = cluster.nodes;
  await cluster.apply([
    ...cluster.nodes.map((node) => pod({ name: `web-${node}`, app: 'web', nodeName: node, args: ['netexec'] })),
    pod({ name: 'client', app: 'client', nodeName: first }),
    service('web', 'web', [{ port: 80, targetPort: 8080 }]),
  ]);
  await cluster.wait(patience, '--for=condition=Ready', 'pod', '-l', 'app in (web, client)');
  await allIsWell();
  expect(await isLogged('debug')).toBe(false);
});

it('keeps values over an upgrade by the command of the page, and rolls the other setting out', async () => {
  const before = await values();
  await typed(upgraded());
  second = await untilDeployed(({ config }) => config !== first.config);
  const { agent, ...rest } = await values();
  const { agent: former, ...others } = before;
  expect([rest, agent]).toEqual([others, { ...Object(former), logLevel: 'debug' }]);
  await until(
    async () => await isLogged('debug'),
    patience * 1_000,
    () => 'agents do not log what was asked for',
  );
  await allIsWell();
});

it('keeps them without options, too, in a version of the chart that has another list of plugins', async () => {
  const chart = join(cluster.folder, 'chart');
  cpSync(join(packageRoot, 'build', 'helm', 'seine'), chart, { recursive: true });
  const file = join(chart, 'files', '10-seine.conflist');
  const { plugins: chain, ...list } = JSON.parse(readFileSync(file, 'utf8')) as { readonly plugins: readonly { readonly type: string }[] };
  writeFileSync(file, JSON.stringify({ ...list, plugins: [...chain, { type: 'portmap' }] }, null, 2));
  const before = await values();
  await typed(`helm upgrade seine ${chart} --namespace kube-system`);
  await untilDeployed(({ config }) => config !== second.config);
  expect(await values()).toEqual(before);
  expect(await plugins()).toEqual([...installedPlugins, { type: 'portmap' }]);
});

it('restores agent, configuration and plugin list by helm rollback', async () => {
  await typed(rolledBack());
  expect(await untilDeployed(({ config }) => config === second.config)).toEqual(second);
  expect(await plugins()).toEqual(installedPlugins);
  await until(
    async () => await isLogged('debug'),
    patience * 1_000,
    () => 'agents do not log what was asked for',
  );
  await allIsWell();
});

it('stops at one node with a missing image, and recovers', async () => {
  await typed(upgraded(), '--set agentImage=seine.invalid/agent:none');
  await stopsAtOneNode(cluster, ({ waits }) => /ImagePull/.test(waits));
  await typed(rolledBack());
  expect(await untilDeployed(({ image }) => image === second.image)).toEqual(second);
});

it('restores by kubectl rollout undo what helm has replaced', async () => {
  await typed(upgraded(), '--set agent.logLevel=warn');
  await untilDeployed(({ config }) => config !== second.config);
  await undo(cluster);
  expect(await untilDeployed(({ config }) => config === second.config)).toEqual(second);
  await allIsWell();
});

it('is removed by the commands of the page, and nodes are clean', async () => {
  await cluster.kubectl('delete', 'pod', '-l', 'app in (web, client)');
  await cluster.kubectl('-n', 'kube-system', 'scale', 'deployment/coredns', '--replicas=0');
  const commands = 'Uninstalling';
  await typed(commandOf('docs/installation/uninstall.md', commands, 'helm upgrade'));
  await until(
    async () =>
      (await cluster.kubectl('-n', 'seine-system', 'get', 'daemonsets', '-o', 'name')) ===
      'daemonset.apps/seine-cleanup\ndaemonset.apps/seine-ovs\n',
    patience * 1_000,
    () => 'the agents stay',
  );
  await cluster.kubectl('-n', 'seine-system', 'rollout', 'status', 'daemonset/seine-cleanup', `--timeout=${patience}s`);
  await typed(commandOf('docs/installation/uninstall.md', commands, 'helm uninstall'));
  await cluster.wait(patience, '--for=delete', 'namespace/seine-system');
  expect(
    await cluster.kubectlAnyway('get', 'clusterrole,flowschema,validatingadmissionpolicy', '-l', 'app.kubernetes.io/part-of=seine'),
  ).toContain('No resources found');
  for (const node of cluster.nodes) {
    expect(await cluster.onNode(node, 'ls', '/etc/cni/net.d')).not.toContain('seine');
    expect(await cluster.onNode(node, 'ip', '-br', 'link')).not.toContain('antrea-gw0');
  }
});
