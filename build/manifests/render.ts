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
  const distribution = distributions[values.for];
  const dataPath = values.datapath ?? defaultOptions.dataPath;
  if (values.help || distribution === undefined || (dataPath !== 'system' && dataPath !== 'netdev')) return undefined;
  const base = { ...defaultOptions, ...distribution, dataPath } as const;
  const options = {
    ...base,
    agentImage: values['agent-image'] ?? base.agentImage,
    ovsImage: values['ovs-image'] ?? base.ovsImage,
    cniBinFolder: values['cni-bin'] ?? base.cniBinFolder,
    cniConfFolder: values['cni-conf'] ?? base.cniConfFolder,
    ...(values['api-server'] === undefined ? {} : { apiServer: values['api-server'] }),
  };
  return { options, parts: values.uninstall ? uninstallParts : manifestParts };
}

const chosen = asked();
if (chosen === undefined) {
  process.stderr.write(usage);
  process.exitCode = process.argv.includes('--help') ? 0 : 2;
} else process.stdout.write(`${manifestText(chosen.parts(chosen.options))}\n`);
