/**
 * `node build/manifests/render.ts`: prints the manifest. Options say what differs from cluster to cluster; `--help` lists them.
 */
import { parseArgs } from 'node:util';
import { manifestParts, manifestText, uninstallParts } from './manifest.ts';
import { defaultOptions, distributions, type ManifestOptions } from './options.ts';

const usage = `Usage: node build/manifests/render.ts [options] > seine.yaml

  --for NAME           paths of a distribution: ${Object.keys(distributions).join(', ')} (default kubeadm)
  --api-server URL     where the API server is without its Service; needed without kube-proxy
  --agent-image NAME   default ${defaultOptions.agentImage}
  --ovs-image NAME     default ${defaultOptions.ovsImage}
  --cni-bin FOLDER     where the runtime looks for plugins (default ${defaultOptions.cniBinFolder})
  --cni-conf FOLDER    where it looks for their configuration (default ${defaultOptions.cniConfFolder})
  --datapath TYPE      system (default) or netdev
  --uninstall          what takes it off the nodes again (docs/uninstall.md)
`;

/** @returns undefined if help is asked for. @throws Error naming the option and its value */
function asked(): { readonly options: ManifestOptions; readonly parts: typeof manifestParts } | undefined {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      for: { type: 'string', default: 'kubeadm' },
      'api-server': text,
      'agent-image': text,
      'ovs-image': text,
      'cni-bin': text,
      'cni-conf': text,
      datapath: text,
      uninstall: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const distribution = Object.hasOwn(distributions, values.for) ? distributions[values.for] : undefined;
  const dataPath = values.datapath ?? defaultOptions.dataPath;
  if (values.help) return undefined;
  if (distribution === undefined) throw new Error(`--for ${values.for}: one of ${Object.keys(distributions).join(', ')} is wanted`);
  if (dataPath !== 'system' && dataPath !== 'netdev') throw new Error(`--datapath ${dataPath}: system or netdev is wanted`);
  const apiServer = values['api-server'];
  if (apiServer !== undefined && !/^https?:$/.test(URL.parse(apiServer)?.protocol ?? ''))
    throw new Error(`--api-server ${apiServer}: a URL is wanted, such as https://192.0.2.10:6443`);
  for (const name of ['cni-bin', 'cni-conf'] as const)
    if (values[name]?.startsWith('/') === false) throw new Error(`--${name} ${values[name]}: an absolute path is wanted`);
  const base = { ...defaultOptions, ...distribution, dataPath } as const;
  const options = {
    ...base,
    agentImage: values['agent-image'] ?? base.agentImage,
    ovsImage: values['ovs-image'] ?? base.ovsImage,
    cniBinFolder: values['cni-bin'] ?? base.cniBinFolder,
    cniConfFolder: values['cni-conf'] ?? base.cniConfFolder,
    ...(apiServer === undefined ? {} : { apiServer }),
  };
  return { options, parts: values.uninstall ? uninstallParts : manifestParts };
}

try {
  const chosen = asked();
  process.stdout.write(chosen === undefined ? usage : `${manifestText(chosen.parts(chosen.options))}\n`);
} catch (thrown) {
  process.stderr.write(`render: ${thrown instanceof Error ? thrown.message : String(thrown)}; --help lists the options\n`);
  process.exitCode = 2;
}
