import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { SetupError } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';

export const modulesFolder = join(import.meta.dirname, 'modules');

const hashLength = 12;

/** By module of `modules/`: Go's package of each program, and the flags of the build. The longest builds come last. */
const programsOf = {
  pause: { packages: { pause: '.' }, flags: ['-ldflags', '-s -w'] },
  containerd: {
    packages: {
      containerd: 'github.com/containerd/containerd/v2/cmd/containerd',
      'containerd-shim-runc-v2': 'github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2',
      ctr: 'github.com/containerd/containerd/v2/cmd/ctr',
    },
    flags: ['-tags', 'no_btrfs no_zfs', '-ldflags', '-s -w'],
  },
  coredns: { packages: { coredns: 'github.com/coredns/coredns' }, flags: ['-ldflags', '-s -w'] },
  kubernetes: {
    packages: {
      etcd: 'go.etcd.io/etcd/server/v3',
      'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
      'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
      'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
      kubelet: 'k8s.io/kubernetes/cmd/kubelet',
      'kube-proxy': 'k8s.io/kubernetes/cmd/kube-proxy',
      kubectl: 'k8s.io/kubernetes/cmd/kubectl',
      agnhost: 'k8s.io/kubernetes/test/images/agnhost',
      'regression-issue-74839': 'k8s.io/kubernetes/test/images/regression-issue-74839',
      ginkgo: 'github.com/onsi/ginkgo/v2/ginkgo',
      'e2e.test': 'k8s.io/kubernetes/test/e2e',
    },
    flags: ['-ldflags', versionFlags(kubernetesVersion())],
  },
};

/** Every program: its name, the folder of its module, and the arguments of `go`, but for the output. */
export const programs = Object.entries(programsOf).flatMap(([module, { packages, flags }]) =>
  Object.entries(packages).map(([name, path]) => ({
    name,
    folder: join(modulesFolder, module),
    path,
    args: [...(name.endsWith('.test') ? ['test', '-c'] : ['build']), '-trimpath', ...flags],
  })),
);

/** The version of Kubernetes that the module pins, such as `1.37.2`. */
export function kubernetesVersion() {
  const [, version] = /^\tk8s\.io\/kubernetes v(\S+)/m.exec(readFileSync(join(modulesFolder, 'kubernetes', 'go.mod'), 'utf8')) ?? [];
  if (version === undefined)
    throw new SetupError('build/kubernetes/modules/kubernetes/go.mod names no k8s.io/kubernetes', 'restore the file');
  return version;
}

/**
 * Where the programs of these sources are kept: outside of the tree, one folder for each set of versions and flags.
 *
 * @param {{ XDG_CACHE_HOME?: string | undefined }} environment
 * @returns {string}
 */
export function programFolder(environment = process.env) {
  const flags = createHash('sha256').update(JSON.stringify(programsOf)).digest('hex');
  const key = createHash('sha256')
    .update(contentHash([modulesFolder]))
    .update(flags)
    .digest('hex')
    .slice(0, hashLength);
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(cache, 'seine', 'kubernetes', `${kubernetesVersion()}-${key}`);
}

/** What a release has stamped into it, and servers, clients and tests ask each other for. */
function versionFlags(version) {
  const [major, minor] = version.split('.');
  const said = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const packages = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'];
  const stamps = packages.flatMap((name) => Object.entries(said).map(([key, value]) => `-X ${name}.${key}=${value}`));
  return ['-s -w', ...stamps].join(' ');
}
