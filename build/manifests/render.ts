/**
 * `npm run render -- …`: prints the manifest, or writes it. Options say what differs from cluster to cluster; `--help` lists them.
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { parse, stringify } from 'yaml';
import { parseConfig } from '../../src/config/agent-config.ts';
import { manifestParts, manifestText, uninstallParts } from './manifest.ts';
import { clusterSizes, defaultOptions, distributions, type ManifestOptions } from './options.ts';

const usage = `Usage: npm run render -- [options]

  -o, --output FILE    writes the manifest there, not to standard output
  --for NAME           paths of a distribution: ${Object.keys(distributions).join(', ')} (default kubeadm)
  --api-server URL     where the API server is without its Service; needed without kube-proxy
  --agent-image NAME   default ${defaultOptions.agentImage}
  --ovs-image NAME     default ${defaultOptions.ovsImage}
  --cni-bin FOLDER     where the runtime looks for plugins (default ${defaultOptions.cniBinFolder})
  --cni-conf FOLDER    where it looks for their configuration (default ${defaultOptions.cniConfFolder})
  --datapath TYPE      system (default) or netdev
  --size NAME          small (default): agents are replaced one after the other; large: 1 % of the nodes at a time, and more memory is asked for
  --policy-mode MODE   of all nodes: enforce (default), audit or off (docs/policy.md)
  --set KEY=VALUE      a setting of the agent (docs/configuration.md), e.g. --set proxy.proxyAll=true; may be given several times
  --uninstall          what takes it off the nodes again (docs/uninstall.md)
  --help               this text
`;

interface Asked {
  readonly options: ManifestOptions;
  readonly parts: typeof manifestParts;
  readonly output: string | undefined;
}

const text = { type: 'string' } as const;

function given() {
  return parseArgs({
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
      'policy-mode': { type: 'string', default: defaultOptions.policyMode },
      set: { type: 'string', multiple: true, default: [] },
      uninstall: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }).values;
}

/** @returns undefined if help is asked for. @throws Error naming the option and its value */
function asked(): Asked | undefined {
  const values = given();
  if (values.help) return undefined;
  const dataPath = oneOf('datapath', values.datapath, { system: 'system', netdev: 'netdev' } as const);
  const apiServer = values['api-server'];
  if (apiServer !== undefined && !/^https?:$/.test(URL.parse(apiServer)?.protocol ?? ''))
    throw new Error(`--api-server ${apiServer}: a URL is wanted, such as https://192.0.2.10:6443`);
  for (const name of ['cni-bin', 'cni-conf'] as const)
    if (values[name]?.startsWith('/') === false) throw new Error(`--${name} ${values[name]}: an absolute path is wanted`);
  const base = { ...defaultOptions, ...oneOf('for', values.for, distributions), dataPath };
  const options: ManifestOptions = {
    ...base,
    agentImage: values['agent-image'] ?? base.agentImage,
    ovsImage: values['ovs-image'] ?? base.ovsImage,
    cniBinFolder: values['cni-bin'] ?? base.cniBinFolder,
    cniConfFolder: values['cni-conf'] ?? base.cniConfFolder,
    size: oneOf('size', values.size, clusterSizes),
    policyMode: oneOf('policy-mode', values['policy-mode'], { enforce: 'enforce', audit: 'audit', off: 'off' } as const),
    agent: settings(values.set),
    ...(apiServer === undefined ? {} : { apiServer }),
  };
  return { options, parts: values.uninstall ? uninstallParts : manifestParts, output: values.output };
}

/** @throws Error naming the option, its value, and what it may be */
function oneOf<T>(option: string, value: string, choices: Readonly<Record<string, T>>): T {
  const chosen = Object.hasOwn(choices, value) ? choices[value] : undefined;
  if (chosen === undefined) throw new Error(`--${option} ${value}: one of ${Object.keys(choices).join(', ')} is wanted`);
  return chosen;
}

/** Values are YAML, as in the file. @throws Error naming the setting that agents would refuse */
function settings(assignments: readonly string[]): Record<string, unknown> {
  // Without a prototype: `constructor` is a key that agents do not know, and no object of its own.
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

try {
  const chosen = asked();
  const manifest = chosen && `${manifestText(chosen.parts(chosen.options))}\n`;
  if (chosen?.output !== undefined) writeFileSync(resolve(process.env['INIT_CWD'] ?? '.', chosen.output), manifest ?? '');
  else process.stdout.write(manifest ?? usage);
} catch (thrown) {
  process.stderr.write(`render: ${thrown instanceof Error ? thrown.message : String(thrown)}; --help lists the options\n`);
  process.exitCode = 2;
}
