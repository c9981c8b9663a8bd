import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { SetupError } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';

export const modulesFolder = join(import.meta.dirname, 'modules');
/** Modules of the control planes of other versions, a folder each, such as `1.30`. */
const controlPlanesFolder = join(import.meta.dirname, 'control-planes');

/** The module of the containerd version before that of the whole Kubernetes. */
const olderContainerd = join(import.meta.dirname, 'runtimes', 'containerd-1.7');

/** The module of a runtime client that operators have on their nodes, and that only tests of pages need. */
const crictlModule = join(import.meta.dirname, 'tools', 'crictl');

/** The module of the conformance suite of ClusterNetworkPolicy. */
const policyApiModule = join(import.meta.dirname, 'tools', 'policy-api');

/** The module of the program that starts containers, which containerd calls. */
const runcModule = join(import.meta.dirname, 'runtimes', 'runc');

/** Modules of `kubeadm`, a folder for each minor version, such as `1.37`. */
const kubeadmFolder = join(import.meta.dirname, 'kubeadm');

const hashLength = 12;
const containerdFlags = ['-tags', 'no_btrfs no_zfs', '-ldflags', '-s -w'];

/** Packages of each module of `modules/`: Go's package of each program, and the flags of the build. The longest builds come last. */
const programsOf = {
  pause: { packages: { pause: '.' }, flags: ['-ldflags', '-s -w'] },
  containerd: {
    packages: {
      containerd: 'github.com/containerd/containerd/v2/cmd/containerd',
      'containerd-shim-runc-v2': 'github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2',
      ctr: 'github.com/containerd/containerd/v2/cmd/ctr',
    },
    flags: containerdFlags,
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

/** Every program: its name, the folder of its module, and the arguments of `go`, except the output. */
export const programs = Object.entries(programsOf).flatMap(([module, { packages, flags }]) =>
  programsIn(join(modulesFolder, module), packages, flags),
);

/** Programs of a control plane; in another version, the first and the last are those of the whole Kubernetes. */
export const controlPlanePrograms = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'];
const ofEveryVersion = ['etcd', 'kubectl'];

function programsIn(folder, packages, flags) {
  return Object.entries(packages).map(([name, path]) => ({
    name,
    folder,
    path,
    args: [...(name.endsWith('.test') ? ['test', '-c'] : ['build']), '-trimpath', ...flags],
  }));
}

/** The version of Kubernetes that the module pins, such as `1.37.2`. */
export function kubernetesVersion() {
  return versionIn(join(modulesFolder, 'kubernetes'));
}

function versionIn(folder) {
  const [, version] = /^\tk8s\.io\/kubernetes v(\S+)/m.exec(readFileSync(join(folder, 'go.mod'), 'utf8')) ?? [];
  if (version === undefined) throw new SetupError(`${folder}/go.mod names no k8s.io/kubernetes`, 'restore the file');
  return version;
}

/** Versions other than that of the whole Kubernetes whose control plane can be built, such as `1.30.14`; the newest first. */
export function otherControlPlanes() {
  const versions = readdirSync(controlPlanesFolder).map((minor) => versionIn(join(controlPlanesFolder, minor)));
  return versions.toSorted((one, other) => Number(other.split('.')[1]) - Number(one.split('.')[1]));
}

/**
 * The programs of another version's control plane, in the form of `programs`; those that are the same for every version are not among them.
 *
 * @param {string} version one of `otherControlPlanes`
 */
export function controlPlaneOf(version) {
  const [major, minor] = version.split('.');
  const own = Object.entries(programsOf.kubernetes.packages).filter(
    ([name]) => controlPlanePrograms.includes(name) && !ofEveryVersion.includes(name),
  );
  const folder = join(controlPlanesFolder, `${major}.${minor}`);
  return {
    folder: keptIn(`control-plane-${version}`, [folder], versionFlags(version)),
    programs: programsIn(folder, Object.fromEntries(own), ['-ldflags', versionFlags(version)]),
  };
}

/** Versions of containerd that can be built. */
export const containerdVersions = ['1.7', '2'];

/**
 * containerd of a version, with its shim and its client.
 *
 * @param {string} version one of `containerdVersions`
 */
export function containerdOf(version) {
  const { packages } = programsOf.containerd;
  if (version === '2') return { folder: programFolder(), programs: programs.filter(({ name }) => name in packages) };
  const before2 = Object.fromEntries(Object.entries(packages).map(([name, path]) => [name, path.replace('/v2/', '/')]));
  const folder = keptIn(`containerd-${version}`, [olderContainerd], JSON.stringify([before2, containerdFlags]));
  return { folder, programs: programsIn(olderContainerd, before2, containerdFlags) };
}

/** Kubernetes' client of runtimes: `crictl`. */
export function crictl() {
  const packages = { crictl: 'sigs.k8s.io/cri-tools/cmd/crictl' };
  const flags = ['-ldflags', '-s -w'];
  return {
    folder: keptIn('crictl', [crictlModule], JSON.stringify([packages, flags])),
    programs: programsIn(crictlModule, packages, flags),
  };
}

/** The conformance suite of ClusterNetworkPolicy, and its variants. */
export function policyApiSuite() {
  const path = 'sigs.k8s.io/network-policy-api/conformance';
  const args = ['test', '-c', '-vet=off', '-trimpath', '-ldflags', '-s -w'];
  const overlay = join(import.meta.dirname, 'policy-api-variants.mjs');
  return {
    folder: keptIn('policy-api', [policyApiModule, overlay], JSON.stringify(args)),
    programs: {
      suite: { name: 'policy-api.test', folder: policyApiModule, path, args },
      withoutSctp: { name: 'policy-api-without-sctp.test', folder: policyApiModule, path, args },
      longLimits: { name: 'policy-api-long-limits.test', folder: policyApiModule, path, args },
    },
  };
}

/** runc with libseccomp, in C in part. */
export function runc() {
  const packages = { runc: 'github.com/opencontainers/runc' };
  const [, version] = /^\tgithub.com\/opencontainers\/runc v(\S+)/m.exec(readFileSync(join(runcModule, 'go.mod'), 'utf8')) ?? [];
  const flags = ['-tags', 'seccomp', '-ldflags', `-s -w -X main.version=${version}`];
  return {
    folder: keptIn(`runc-${version}`, [runcModule], JSON.stringify([packages, flags])),
    programs: programsIn(runcModule, packages, flags).map((program) => ({ ...program, env: { CGO_ENABLED: '1' } })),
  };
}

/**
 * kubeadm of a version. For a version other than that of the whole Kubernetes, its kubelet too: kubeadm upgrades a node whose kubelet is older.
 *
 * @param {string} version the version of the whole Kubernetes, or one of `otherControlPlanes`
 */
export function kubeadmOf(version) {
  const names = version === kubernetesVersion() ? ['kubeadm'] : ['kubeadm', 'kubelet'];
  const packages = Object.fromEntries(names.map((name) => [name, `k8s.io/kubernetes/cmd/${name}`]));
  const [major, minor] = version.split('.');
  const folder = join(kubeadmFolder, `${major}.${minor}`);
  const pause = join(modulesFolder, 'pause');
  const flags = versionFlags(version);
  return {
    folder: keptIn(`kubeadm-${version}`, [folder, pause], JSON.stringify([packages, flags])),
    programs: [...programsIn(folder, packages, ['-ldflags', flags]), ...programsIn(pause, { pause: '.' }, ['-ldflags', '-s -w'])],
  };
}

/** The version of Kubernetes before that of the whole, from which kubeadm upgrades, such as `1.36.3`. */
export function kubernetesVersionBefore() {
  const minorOf = (version) => Number(version.split('.')[1]);
  const found = otherControlPlanes().find((version) => minorOf(version) === minorOf(kubernetesVersion()) - 1);
  if (found === undefined)
    throw new SetupError('no control plane of the minor version before is pinned', 'restore build/kubernetes/control-planes');
  return found;
}

/**
 * Folder of the programs of these sources: outside of the tree, one for each set of versions and flags.
 *
 * @param {{ XDG_CACHE_HOME?: string | undefined }} environment
 * @returns {string}
 */
export function programFolder(environment = process.env) {
  const flags = createHash('sha256').update(JSON.stringify(programsOf)).digest('hex');
  return keptIn(kubernetesVersion(), [modulesFolder], flags, environment);
}

function keptIn(name, sources, flags, environment = process.env) {
  const key = createHash('sha256').update(contentHash(sources)).update(flags).digest('hex').slice(0, hashLength);
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(cache, 'seine', 'kubernetes', `${name}-${key}`);
}

/** Version that is linked into a release, and that servers, clients and tests exchange. */
function versionFlags(version) {
  const [major, minor] = version.split('.');
  const said = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const packages = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'];
  const stamps = packages.flatMap((name) => Object.entries(said).map(([key, value]) => `-X ${name}.${key}=${value}`));
  return ['-s -w', ...stamps].join(' ');
}
