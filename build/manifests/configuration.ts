import { createHash } from 'node:crypto';
import type { ConfigMap, Namespace } from 'kubernetes-types/core/v1.d.ts';
import { chainConfList } from '../../lab/kubelet/cni-conf.ts';
import { liveSettingsName } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { labelsOf, type Part, pooledLabels } from './part.ts';
import { pooledName } from './pool.ts';

export const agentConfigKey = 'agent.yaml';
export const conflistKey = '10-seine.conflist';
export const agentConfigPath = '/etc/seine/agent.yaml';

/** ConfigMap of the agents; each pool has its own. */
export function agentConfiguration(options: ManifestOptions): Part {
  return {
    object: configMap(options),
    about:
      'Configuration of the agent (docs/configuration.md) and of the CNI plugin (docs/cni.md). Its name has a hash of its content.\nTo change a setting, render and apply again: the agents are replaced. `rollout undo` restores both.',
  };
}

const homeObject: Namespace = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: namespace, labels: { ...labelsOf('seine'), 'pod-security.kubernetes.io/enforce': 'privileged' } },
};

export const home: Part = {
  object: homeObject,
  about: 'Namespace of Seine. Its pods use the network of their node, which Pod Security calls privileged.',
};

function configMap(options: ManifestOptions): ConfigMap {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: configName(options), namespace, labels: pooledLabels('seine-agent', options.pool) },
    immutable: true,
    data: configData(options),
  };
}

export function liveSettings({ policyMode }: ManifestOptions): Part {
  const metadata = { name: liveSettingsName, namespace, labels: labelsOf('seine-agent') };
  const object: ConfigMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'policy.mode': policyMode } };
  return {
    object,
    about:
      'Settings of all nodes that apply without a restart (docs/configuration.md#networkpolicy): `policy.mode` is enforce, audit or off.\nThe annotation seine.dev/policy-mode of a Node takes precedence.',
  };
}

/** Name with a hash of the content: a roll-out and a rollback switch image and configuration together. */
export function configName(options: ManifestOptions): string {
  const { [agentConfigKey]: config, [conflistKey]: plugins } = configData(options);
  const hash = createHash('sha256').update(`${config}---\n${plugins}`).digest('hex');
  return `${pooledName('seine-config', options.pool)}-${hash.slice(0, 10)}`;
}

function configData(options: ManifestOptions) {
  return { [agentConfigKey]: agentConfig(options), [conflistKey]: conflist() };
}

/** Settings that no option changes; `--set` can. */
export const fixedSettings = { tunnelType: 'geneve', logLevel: 'info' } as const;

function agentConfig({ dataPath, apiServer, agent }: ManifestOptions): string {
  const required = { ovsDatapathType: dataPath, ...(apiServer === undefined ? {} : { kubeAPIServerOverride: apiServer }) };
  return `${apiServer === undefined ? apiServerHint : ''}${settingsText({ ...required, ...fixedSettings, ...agent })}`;
}

export const apiServerHint = [
  '# Without kube-proxy the agent must not look for the API server by its Service, which the agent itself serves:',
  '# kubeAPIServerOverride: https://ADDRESS-OF-THE-API-SERVER:6443',
  '',
].join('\n');

/**
 * Settings as YAML, a line each, in the order of their keys, values as JSON. The Helm chart writes the same bytes, which `configName` is a
 * hash of (`seine.settings` of build/helm/seine/templates/_seine.tpl): YAML libraries differ in their output.
 */
function settingsText(settings: Settings): string {
  const lines = sorted(settings).map(([key, value]) => {
    const inner = isGroup(value) ? sorted(value) : [];
    return inner.length === 0
      ? `${key}: ${inOrder(value)}\n`
      : `${key}:\n${inner.map(([name, each]) => `  ${name}: ${inOrder(each)}\n`).join('')}`;
  });
  return lines.join('');
}

type Settings = Readonly<Record<string, unknown>>;

const isGroup = (value: unknown): value is Settings => typeof value === 'object' && value !== null && !Array.isArray(value);

function sorted(settings: Settings): readonly (readonly [string, unknown])[] {
  return Object.entries(settings).toSorted(([one], [other]) => (one < other ? -1 : 1));
}

function inOrder(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (isGroup(each) ? Object.fromEntries(sorted(each)) : each));
}

/**
 * The chain of the lab, so that the tested chain is the installed one, except for the paths of a lab's node: a cluster's are the defaults.
 * `cniVersions` is filled in on the node, from the capabilities of its plugins.
 */
export function conflist(): string {
  const { cniVersion, name, plugins } = JSON.parse(chainConfList({ agentSocket: '', stateDir: '', deadline: 0 }, [])) as ConfList;
  const installed = plugins.map(({ agentSocket: _, stateDir: __, deadline: ___, ...rest }) => rest);
  return `${JSON.stringify({ cniVersion, name, plugins: installed }, null, 2)}\n`;
}

interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly Settings[];
}
