import { createHash } from 'node:crypto';
import type { ConfigMap, Namespace } from 'kubernetes-types/core/v1.d.ts';
import { stringify } from 'yaml';
import { chainConfList } from '../../src/lab/kubelet/cni-conf.ts';
import { liveSettingsName } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { labelsOf, type Part, pooledLabels } from './part.ts';
import { pooledName } from './pool.ts';

export const agentConfigKey = 'agent.yaml';
export const conflistKey = '10-seine.conflist';
export const agentConfigPath = '/etc/seine/agent.yaml';

export function configuration(options: ManifestOptions): Part[] {
  return [
    {
      object: home,
      about: 'All of Seine lives in a namespace of its own. Its pods share the network of their node, which Pod Security calls privileged.',
    },
    agentConfiguration(options),
    {
      object: liveSettings(options),
      about:
        'What holds on all nodes and is followed while agents run (docs/configuration.md#networkpolicy): `policy.mode` is enforce, audit or off. A Node’s\nannotation seine.dev/policy-mode stands above it.',
    },
  ];
}

/** Of which each pool has its own. */
export function agentConfiguration(options: ManifestOptions): Part {
  return {
    object: configMap(options),
    about:
      'The agent’s configuration (docs/configuration.md), and that of the CNI plugin (docs/cni.md). Its name has a hash of what is in it, which\nnever changes: to change a setting render and apply again, and the agents are rolled out; `rollout undo` brings back both.',
  };
}

const home: Namespace = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: namespace, labels: { ...labelsOf('seine'), 'pod-security.kubernetes.io/enforce': 'privileged' } },
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

function liveSettings({ policyMode }: ManifestOptions): ConfigMap {
  const metadata = { name: liveSettingsName, namespace, labels: labelsOf('seine-agent') };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'policy.mode': policyMode } };
}

/** Another content is another object: a roll-out and the way back take image and configuration together. */
export function configName(options: ManifestOptions): string {
  const hash = createHash('sha256')
    .update(JSON.stringify(configData(options)))
    .digest('hex');
  return `${pooledName('seine-config', options.pool)}-${hash.slice(0, 10)}`;
}

function configData(options: ManifestOptions): Record<string, string> {
  return { [agentConfigKey]: agentConfig(options), [conflistKey]: conflist() };
}

function agentConfig({ dataPath, apiServer, agent }: ManifestOptions): string {
  const required = { ovsDatapathType: dataPath, ...(apiServer === undefined ? {} : { kubeAPIServerOverride: apiServer }) };
  return `${apiServer === undefined ? apiServerHint : ''}${stringify({ ...required, tunnelType: 'geneve', logLevel: 'info', ...agent })}`;
}

const apiServerHint = [
  '# Without kube-proxy the agent must not look for the API server by its Service, which the agent itself serves:',
  '# kubeAPIServerOverride: https://ADDRESS-OF-THE-API-SERVER:6443',
  '',
].join('\n');

/** The chain of the lab, so that what is tested there is what is installed. `cniVersions` is filled in on the node, by what its plugins can do. */
function conflist(): string {
  const { cniVersion, name, plugins } = JSON.parse(chainConfList({ agentSocket: '', stateDir: '', deadline: 0 }, [])) as ConfList;
  const withDefaults = plugins.map(({ type, capabilities }) => ({ type, ...(capabilities ? { capabilities } : {}) }));
  return `${JSON.stringify({ cniVersion, name, plugins: withDefaults }, null, 2)}\n`;
}

interface ConfList {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly { readonly type: string; readonly capabilities?: Readonly<Record<string, boolean>> }[];
}
