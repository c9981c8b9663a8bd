import { createHash } from 'node:crypto';
import type { ConfigMap, Namespace } from 'kubernetes-types/core/v1.d.ts';
import { stringify } from 'yaml';
import { chainConfList } from '../../src/lab/kubelet/cni-conf.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { labelsOf, type Part } from './part.ts';

export const agentConfigKey = 'agent.yaml';
export const conflistKey = '10-seine.conflist';
export const agentConfigPath = '/etc/seine/agent.yaml';

export function configuration(options: ManifestOptions): Part[] {
  return [
    {
      object: home,
      about: 'All of Seine lives in a namespace of its own. Its pods share the network of their node, which Pod Security calls privileged.',
    },
    {
      object: configMap(options),
      about:
        'The agent’s configuration (docs/configuration.md), and that of the CNI plugin (docs/cni.md). Its name has a hash of what is in it, which\nnever changes: to change a setting render and apply again, and the agents are rolled out; `rollout undo` brings back both.',
    },
  ];
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
    metadata: { name: configName(options), namespace, labels: labelsOf('seine-agent') },
    immutable: true,
    data: configData(options),
  };
}

/** Another content is another object: a roll-out and the way back take image and configuration together. */
export function configName(options: ManifestOptions): string {
  const hash = createHash('sha256')
    .update(JSON.stringify(configData(options)))
    .digest('hex');
  return `seine-config-${hash.slice(0, 10)}`;
}

function configData(options: ManifestOptions): Record<string, string> {
  return { [agentConfigKey]: agentConfig(options), [conflistKey]: conflist() };
}

function agentConfig({ dataPath, apiServer, agent }: ManifestOptions): string {
  const required = { ovsDatapathType: dataPath, ...(apiServer === undefined ? {} : { kubeAPIServerOverride: apiServer }) };
  return `${apiServer === undefined ? apiServerHint : ''}${stringify({ ...required, tunnelType: 'geneve', logLevel: 'info', ...agent })}${policyHint}`;
}

const apiServerHint = [
  '# Without kube-proxy the agent must not look for the API server by its Service, which the agent itself serves:',
  '# kubeAPIServerOverride: https://ADDRESS-OF-THE-API-SERVER:6443',
  '',
].join('\n');

/** A comment: an agent up to 0.3.0 refuses the key, and has to start with this ConfigMap after a `rollout undo`. */
const policyHint = [
  '# NetworkPolicy: enforce, audit or "off"; an annotation of a Node stands above it. Releases up to 0.3.0 refuse this key.',
  '# policy: { mode: enforce }',
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
