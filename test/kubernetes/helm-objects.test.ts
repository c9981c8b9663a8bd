import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { builtHelm } from '../../build/helm/program.mjs';
import { packageRoot } from '../../lab/machine/installation.ts';
import { until } from '../support/converge-lab.ts';
import { LoneControlPlane } from './lone-control-plane.ts';
import { commandOf } from './page-commands.ts';

/*
 * The chart by the commands of the pages, with the real `helm`, with the API server and the controllers of a real Kubernetes: its objects
 * when it is installed, upgraded, rolled back and removed. There is no node: install.test.ts tests how agents follow their DaemonSet. One
 * sequence: each part begins where the previous one has ended.
 */

const page = 'docs/installation/helm.md';
const chart = join(packageRoot, 'build', 'helm', 'seine');
const limit = AbortSignal.timeout(1_200_000);
const system = ['-n', 'seine-system'] as const;

let plane: LoneControlPlane;
let helm = '';

beforeAll(async () => {
  helm = await builtHelm();
  plane = await LoneControlPlane.start(limit);
}, 900_000);
afterAll(async () => {
  await plane.remove(AbortSignal.timeout(60_000));
});

async function typed(command: string, more = ''): Promise<string> {
  return await plane.type(`${command.replace('build/helm/seine', chart)} ${more}`, [dirname(helm)], limit);
}

const upgrade = () => commandOf(page, 'Change and roll back', 'helm upgrade');
const rollback = () => commandOf(page, 'Change and roll back', 'helm rollback');
const values = async () => JSON.parse(await typed('helm get values seine --namespace kube-system -o json')) as Record<string, unknown>;

/** Configuration and image that the DaemonSet gives to its pods. */
async function wanted(): Promise<{ readonly config: string; readonly image: string }> {
  const spec = '.spec.template.spec';
  const path = `jsonpath={${spec}.volumes[?(@.name=="config")].configMap.name} {${spec}.containers[0].image}`;
  const [config = '', image = ''] = (await plane.kubectl([...system, 'get', 'daemonset', 'seine-agent', '-o', path], limit)).split(' ');
  return { config, image };
}

async function contentOf(config: string): Promise<Record<string, string>> {
  const { data } = JSON.parse(await plane.kubectl([...system, 'get', 'configmap', config, '-o', 'json'], limit)) as {
    data: Record<string, string>;
  };
  return data;
}

const settings = async () => (await contentOf((await wanted()).config))['agent.yaml'];
const plugins = async () => (await contentOf((await wanted()).config))['10-seine.conflist'] ?? '';

let first: Awaited<ReturnType<typeof wanted>>;
let second: Awaited<ReturnType<typeof wanted>>;

it('is installed by the command of the page', async () => {
  await typed(
    commandOf(page, 'Install', 'helm install').replace('CONTROL-PLANE-ADDRESS', '192.0.2.1').replace('REGISTRY', 'registry.example'),
  );
  first = await wanted();
  expect(first.image).toMatch(/^registry\.example\/seine\/agent:\d/);
  expect(await settings()).toContain('kubeAPIServerOverride: "https://192.0.2.1:6443"\n');
  expect(await typed('helm status seine --namespace kube-system')).toContain('STATUS: deployed');
});

it('keeps values over an upgrade by the command of the page', async () => {
  const { agent: none, ...others } = await values();
  expect(none).toBeUndefined();
  await typed(upgrade());
  expect(await values()).toEqual({ ...others, agent: { logLevel: 'debug' } });
  second = await wanted();
  expect([second.image, second.config === first.config]).toEqual([first.image, false]);
  expect(await settings()).toContain('logLevel: "debug"\n');
});

it('leaves the previous configuration to pods that have it', async () => {
  expect((await contentOf(first.config))['agent.yaml']).toContain('logLevel: "info"\n');
});

it('keeps values without options, too, in a version of the chart that has another list of plugins', async () => {
  const next = join(plane.dir, 'chart');
  cpSync(chart, next, { recursive: true });
  const about = join(next, 'Chart.yaml');
  writeFileSync(about, readFileSync(about, 'utf8').replace(/^(version|appVersion): .*$/gm, '$1: "99.0.0"'));
  const file = join(next, 'files', '10-seine.conflist');
  const { plugins: chain, ...list } = JSON.parse(readFileSync(file, 'utf8')) as { readonly plugins: readonly { readonly type: string }[] };
  writeFileSync(file, JSON.stringify({ ...list, plugins: [...chain, { type: 'portmap' }] }, null, 2));
  const before = await values();
  await typed(`helm upgrade seine ${next} --namespace kube-system`);
  expect(await values()).toEqual(before);
  expect((await wanted()).image).toBe('registry.example/seine/agent:99.0.0');
  expect(JSON.parse(await plugins())).toMatchObject({ plugins: [{ type: 'seine' }, { type: 'portmap' }] });
});

it('restores agent, configuration and plugin list by the command of the page', async () => {
  await typed(rollback());
  expect(await wanted()).toEqual(second);
  expect(await settings()).toContain('logLevel: "debug"\n');
  expect(JSON.parse(await plugins())).toMatchObject({ plugins: [{ type: 'seine', bandwidth: 'both' }] });
});

it('restores by kubectl rollout undo what helm has replaced', async () => {
  await typed('helm upgrade seine build/helm/seine --namespace kube-system --reset-then-reuse-values --set agent.logLevel=warn');
  const third = await wanted();
  expect(third.config).not.toBe(second.config);
  // The controller records each version of a DaemonSet a moment after it was written.
  const noted = async () => (await plane.kubectl([...system, 'get', 'controllerrevisions', '-o', 'json'], limit)).includes(third.config);
  await until(noted, 60_000, () => 'the controller has not noted the third version');
  await plane.kubectl([...system, 'rollout', 'undo', 'daemonset/seine-agent'], limit);
  expect(await wanted()).toEqual(second);
  expect(await settings()).toContain('logLevel: "debug"\n');
});

it('continues with helm after that', async () => {
  await typed(upgrade());
  expect(await wanted()).toEqual(second);
});

it('rejects an unknown setting before it changes anything', async () => {
  await expect(typed(upgrade(), '--set agent.logLevle=debug')).rejects.toThrow(/logLevle/);
  expect(await wanted()).toEqual(second);
});

it('has a pool as a separate release, with its own rollback', async () => {
  const objects = async () => await plane.kubectl([...system, 'get', 'daemonsets', '-o', 'name'], limit);
  await typed('helm install seine-canary build/helm/seine --namespace kube-system --set registry=r.example --set pool.name=canary');
  expect(await objects()).toBe('daemonset.apps/seine-agent\ndaemonset.apps/seine-agent-canary\ndaemonset.apps/seine-ovs\n');
  await typed('helm uninstall seine-canary --namespace kube-system');
  expect(await objects()).toBe('daemonset.apps/seine-agent\ndaemonset.apps/seine-ovs\n');
  expect(await wanted()).toEqual(second);
});

it('is removed by the commands of the page: the cleaning first, and then all of it', async () => {
  await typed(commandOf('docs/installation/uninstall.md', 'Uninstalling', 'helm upgrade'));
  const left = await plane.kubectl([...system, 'get', 'daemonsets', '-o', 'name'], limit);
  expect(left).toBe('daemonset.apps/seine-cleanup\ndaemonset.apps/seine-ovs\n');
  await typed(commandOf('docs/installation/uninstall.md', 'Uninstalling', 'helm uninstall'));
  await plane.kubectl(['wait', '--for=delete', 'namespace/seine-system', '--timeout=120s'], limit);
  const kinds = 'clusterrole,clusterrolebinding,flowschema,validatingadmissionpolicy,validatingadmissionpolicybinding';
  expect(await plane.kubectl(['get', kinds, '-l', 'app.kubernetes.io/part-of=seine', '-o', 'name'], limit)).toBe('');
});
