import { parseArgs } from 'node:util';
import { parse, stringify } from 'yaml';
import { parseConfig } from '../../src/agent/config/agent-config.ts';
import { hasMetricsByTls } from './grants.ts';
import { imageName } from './image-name.ts';
import { manifestParts, poolParts, uninstallParts } from './manifest.ts';
import { clusterSizes, defaultOptions, distributions, type ManifestOptions } from './options.ts';
import type { Part } from './part.ts';
import { nodeLabels, type Pool, poolLabels, poolName } from './pool.ts';

export const usage = `Usage: npm run render -- [options]

  -o, --output FILE    writes the manifest there, not to standard output
  --for NAME           paths of a distribution: ${Object.keys(distributions).join(', ')} (default kubeadm)
  --api-server URL     where the API server is without its Service; needed without kube-proxy
  --agent-image NAME   default ${defaultOptions.agentImage}
  --ovs-image NAME     default ${defaultOptions.ovsImage}
  --cni-bin FOLDER     folder of the runtime's plugins (default ${defaultOptions.cniBinFolder})
  --cni-conf FOLDER    folder of their configuration (default ${defaultOptions.cniConfFolder})
  --datapath TYPE      system (default) or netdev
  --size NAME          small (default): agents are replaced one after the other; large: 1 % of the nodes at a time, and more memory is asked for
  --policy-mode MODE   of all nodes: enforce (default), audit or off (docs/network-policy.md)
  --set KEY=VALUE      a setting of the agent (docs/configuration.md), e.g. --set proxy.proxyAll=true; may be given several times
  --pod-monitor        a PodMonitor for Prometheus' operator, and an identity that may get the metrics; wants --set metricsTLSAddress=ADDRESS:PORT
  --uninstall          what takes it off the nodes again (docs/installation/uninstall.md)
  --help               this text

Pools: nodes with agents of another version or other settings (docs/installation/upgrade.md#pools)

  --pool NAME               only what this pool has of its own: DaemonSet and ConfigMap. Its nodes are those labelled ${poolLabels.agent}=NAME
  --pool-ovs                it has an Open vSwitch of its own, too, on nodes labelled ${poolLabels.ovs}=NAME
  --node-selector KEY=VALUE[,…]  its nodes are those with these labels instead; what runs there otherwise has to be rendered with --except
  --except KEY=VALUE[,…]    leaves nodes with these labels to another pool's agents; may be given several times
  --except-ovs KEY=VALUE[,…]     the same, to another pool's agents and Open vSwitch
`;

interface Asked {
  readonly options: ManifestOptions;
  readonly parts: (options: ManifestOptions) => Part[];
  readonly output: string | undefined;
}

const text = { type: 'string' } as const;
const texts = { type: 'string', multiple: true, default: [] as string[] } as const;

function given(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    options: {
      output: { type: 'string', short: 'o' },
      for: { type: 'string', default: 'kubeadm' },
      'api-server': text,
      'agent-image': text,
      'ovs-image': text,
      'cni-bin': text,
      'cni-conf': text,
      datapath: { type: 'string', default: defaultOptions.dataPath },
      size: { type: 'string', default: 'small' },
      'policy-mode': text,
      set: texts,
      pool: text,
      'pool-ovs': { type: 'boolean', default: false },
      'node-selector': text,
      except: texts,
      'except-ovs': texts,
      'pod-monitor': { type: 'boolean', default: false },
      uninstall: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }).values;
}

type Given = ReturnType<typeof given>;

/** @param args the command line. @returns undefined for `--help`. @throws Error naming the option and its value */
export function asked(args: readonly string[]): Asked | undefined {
  const values = given(args);
  if (values.help) return undefined;
  const dataPath = oneOf('datapath', values.datapath, { system: 'system', netdev: 'netdev' } as const);
  const apiServer = values['api-server'];
  if (apiServer !== undefined && !/^https?:$/.test(URL.parse(apiServer)?.protocol ?? ''))
    throw new Error(`--api-server ${apiServer}: a URL is wanted, such as https://192.0.2.10:6443`);
  for (const name of ['cni-bin', 'cni-conf'] as const)
    if (values[name]?.startsWith('/') === false) throw new Error(`--${name} ${values[name]}: an absolute path is wanted`);
  const base = { ...defaultOptions, ...oneOf('for', values.for, distributions), dataPath };
  const pool = poolOf(values);
  const ovsToo = values['except-ovs'].map((value) => nodeLabels('--except-ovs', value));
  const options: ManifestOptions = {
    ...base,
    agentImage: imageName('agent-image', values['agent-image'] ?? base.agentImage),
    ovsImage: imageName('ovs-image', values['ovs-image'] ?? base.ovsImage),
    cniBinFolder: values['cni-bin'] ?? base.cniBinFolder,
    cniConfFolder: values['cni-conf'] ?? base.cniConfFolder,
    size: oneOf('size', values.size, clusterSizes),
    policyMode: oneOf('policy-mode', values['policy-mode'] ?? base.policyMode, { enforce: 'enforce', audit: 'audit', off: 'off' } as const),
    agent: settings(values.set),
    leftToPools: { agent: [...values.except.map((value) => nodeLabels('--except', value)), ...ovsToo], ovs: ovsToo },
    podMonitor: values['pod-monitor'],
    ...(apiServer === undefined ? {} : { apiServer }),
    ...(pool === undefined ? {} : { pool }),
  };
  if (options.podMonitor && !hasMetricsByTls(options.agent))
    throw new Error('--pod-monitor: of which port? --set metricsTLSAddress=ADDRESS:PORT is wanted with it, such as 0.0.0.0:10352');
  return { options, parts: values.uninstall ? uninstallParts : pool === undefined ? manifestParts : poolParts, output: values.output };
}

/** @throws Error for options that require a pool, that no pool can have, or that have no effect */
function poolOf(values: Given): Pool | undefined {
  const selector = values['node-selector'];
  if (values.pool === undefined) {
    if (selector !== undefined) throw new Error(`--node-selector ${selector}: of which pool? --pool NAME is wanted with it`);
    if (values['pool-ovs']) throw new Error('--pool-ovs: of which pool? --pool NAME is wanted with it');
    return undefined;
  }
  const name = poolName('--pool', values.pool);
  const mode = values['policy-mode'];
  if (mode !== undefined)
    throw new Error(
      `--policy-mode ${mode}: it is the same on all nodes and rendered without --pool; on one node an annotation stands above it`,
    );
  if (values['pod-monitor']) throw new Error(`--pool ${name}: the PodMonitor is of all agents, and rendered without --pool`);
  if (values.uninstall) throw new Error(`--pool ${name}: what --uninstall renders is for all nodes, and rendered without --pool`);
  const image = values['ovs-image'];
  if (image !== undefined && !values['pool-ovs'])
    throw new Error(`--ovs-image ${image}: pool ${name} keeps the Open vSwitch of all other nodes; add --pool-ovs, or leave this out`);
  return { name, ovs: values['pool-ovs'], ...(selector === undefined ? {} : { nodeSelector: nodeLabels('--node-selector', selector) }) };
}

/** @throws Error naming the option, its value, and the permitted values */
function oneOf<T>(option: string, value: string, choices: Readonly<Record<string, T>>): T {
  const chosen = Object.hasOwn(choices, value) ? choices[value] : undefined;
  if (chosen === undefined) throw new Error(`--${option} ${value}: one of ${Object.keys(choices).join(', ')} is wanted`);
  return chosen;
}

/** Parses settings. Values are YAML, as in the file. @throws Error naming the setting that agents would reject */
function settings(assignments: readonly string[]): Record<string, unknown> {
  // Without a prototype: `constructor` is a key unknown to agents, not an inherited property.
  const agent: Record<string, unknown> = Object.create(null);
  for (const assignment of assignments) {
    const [, group, key = '', value = ''] = /^(?:([A-Za-z]+)\.)?([A-Za-z0-9]+)=(.*)$/s.exec(assignment) ?? [];
    if (key === '') throw new Error(`--set ${assignment}: KEY=VALUE is wanted, such as proxy.proxyAll=true`);
    const of = group === undefined ? agent : ((agent[group] ??= {}) as Record<string, unknown>);
    of[key] = parse(value);
  }
  parseConfig(stringify(agent), {});
  return agent;
}
