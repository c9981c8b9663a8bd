import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask, runLogged } from './commands.mjs';
import { cache } from './paths.mjs';
import { SetupError, say } from './progress.mjs';

/**
 * The project's Debian packages, and their use. docs/contributing/dependencies.md gives the reason and maintainer of each; a test compares
 * the two lists.
 */
export const packages = {
  'openvswitch-switch': 'ovs-vswitchd and ovsdb-server of the lab, ovs-ofctl as oracle',
  nftables: 'nft: the lab and the tests look at rule sets',
  libnftables1: 'the agent programs the host firewall through it',
  ethtool: 'checksum offload of the lab’s underlay',
  iproute2: 'ip: the lab and the tests look at links and routes',
  'iputils-ping': 'checks of the demo and the tests',
  'containernetworking-plugins':
    'portmap and bandwidth, for lists that have them and for what they leave; bridge and host-local as peer in the benchmarks',
  iptables: 'portmap uses it, where a list has it',
  procps: 'sysctl: tests look at kernel settings',
  gcc: 'compiles the plugin',
  'libc6-dev': 'compiles the plugin',
  'musl-tools': 'compiles the plugin, with a C library that starts at once',
  iperf3: 'throughput in the benchmarks',
  tcpdump: 'tests look at packets',
  socat: 'clients and servers of the tests',
  curl: 'tests ask HTTP servers, also from within namespaces',
  'libusrsctp-examples': 'a whole stack of SCTP for the tests, on kernels that have none',
  conntrack: 'tests look at the host’s connection table',
  'python3-os-ken': 'second opinion on OpenFlow bytes',
  'python3-openvswitch': 'second opinion on copies of a database',
  'python3-kubernetes': 'second opinion on the API server of the lab',
  openssl: 'makes the certificates of the tests',
  'wireguard-go': 'WireGuard devices on kernels that have none',
  'wireguard-tools': 'wg: tests look at keys and peers of WireGuard devices',
};

/** Packages for `npm run demo:kernel` only. The kernel itself is downloaded, never installed. */
export const kernelDemoPackages = {
  'qemu-system-x86': 'the virtual machine',
  cpio: 'packs its first file system',
  'busybox-static': 'its first process',
  kmod: 'finds the modules it needs',
};

/** Packages for `npm run test:runtime` only. */
export const runtimePackages = {
  containerd: 'the runtime of the sandboxes; brings ctr and runc',
  runc: 'starts the containers of both runtimes',
  podman: 'the other runtime; builds and runs the images of an installation',
  debootstrap: 'the Debian that images are built from in tests',
  'busybox-static': 'all that is in the containers',
  'golang-go': 'compiles the client of libcni',
  'golang-github-appc-cni-dev': 'libcni, the library with which runtimes execute plugins',
};

/** Packages for tests of the page: `npm run test:ui`, and its short form in `npm test`. */
export const browserPackages = {
  'chromium-headless-shell': 'the browser in which the page is tested',
};

/** Packages for `npm run test:export` only. */
export const exportPackages = { tshark: 'reads the IPFIX that the flow log exports' };

/** Packages for a real Kubernetes in the lab; the rest of it is built. Go is not among them: Debian 12's is too old. */
export const kubernetesPackages = {
  runc: runtimePackages.runc,
  'libseccomp-dev': 'compiles the runc of nodes that kubeadm makes',
  'netcat-openbsd': 'upstream’s tests call it inside of containers',
  'bind9-dnsutils': 'dig, called there as well',
  iperf: 'measures there',
};

/** Packages for building the images of an installation; debootstrap downloads the Open vSwitch of other releases, too. */
export const imagePackages = { podman: runtimePackages.podman, debootstrap: runtimePackages.debootstrap };

/** Packages for `npm run test:release` only, besides those for images and for arm64. */
export const releasePackages = { jq: 'reads attestations in commands of the page of verification' };

/** Further packages for `npm run test:kernel` only. The virtual machine uses this host's programs. */
export const kernelTestPackages = {
  apparmor: 'loads into the virtual machine’s kernel the profiles that containers get',
  containerd: runtimePackages.containerd,
  runc: runtimePackages.runc,
  podman: runtimePackages.podman,
  debootstrap: runtimePackages.debootstrap,
};

/** Packages for `npm run test:arm64` only. The kernel and the programs for arm64 are unpacked below `.cache/`. */
export const arm64Packages = {
  'qemu-user-static': 'runs single programs for arm64, as those of a Dockerfile',
  'qemu-system-arm': 'the virtual machine for arm64',
  debootstrap: runtimePackages.debootstrap,
  podman: 'builds and runs the images',
  runc: 'runs the containers of podman',
  cpio: kernelDemoPackages.cpio,
  kmod: kernelDemoPackages.kmod,
};

/** Units that these packages would start at boot. */
const enabledUnits = {
  'openvswitch-switch': ['openvswitch-switch.service'],
  apparmor: ['apparmor.service'],
  containerd: ['containerd.service'],
  podman: ['podman.service', 'podman.socket', 'podman-restart.service', 'podman-auto-update.service', 'podman-auto-update.timer'],
};

const kubectlPackage = 'kubernetes-client';
const policyFile = '/usr/sbin/policy-rc.d';
const policyText =
  '#!/bin/sh\n# Put here by the set-up of seine while it installs packages, so that no service starts. Safe to delete.\nexit 101\n';

/** Debian's own kubectl if another package's is installed: the two conflict, so it is unpacked here and not installed. */
export const unpackedKubectl = join(cache, 'kubectl-debian', 'usr', 'bin', 'kubectl');

/** Names of `wanted` that are not installed. */
export function missingPackages(wanted) {
  const names = Object.keys(wanted);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholders are dpkg-query's
  const listing = ask('dpkg-query', ['-W', '-f', '${Package} ${db:Status-Status}\\n']);
  if (listing === undefined)
    throw new SetupError(
      'this machine has no Debian package database',
      `use Debian 12 or newer, or a container of it (the packages are: ${names.join(' ')})`,
    );
  const installed = new Set(listing.split('\n').flatMap((line) => (line.endsWith(' installed') ? line.split(' ', 1) : [])));
  return names.filter((name) => !installed.has(name));
}

/** `install`: no kubectl at all; `unpack`: not Debian's; `nothing` to do: Debian's is installed. */
export function kubectlStep() {
  if (existsSync(unpackedKubectl) || missingPackages({ [kubectlPackage]: '' }).length === 0) return 'nothing';
  return ask('sh', ['-c', 'command -v kubectl']) === undefined ? 'install' : 'unpack';
}

export async function installPackages(names) {
  const wanted = kubectlStep() === 'install' ? [...names, kubectlPackage] : names;
  if (wanted.length === 0) return;
  say(`installing Debian packages: ${wanted.join(' ')}`);
  await withoutStartingServices(() =>
    withFreshLists(() => aptGet('apt-install', ['install', '-y', '--no-install-recommends', '--no-remove', ...wanted])),
  );
  // Debian enables a service when it installs it. The lab runs its own; the host itself needs none.
  const units = wanted.flatMap((name) => enabledUnits[name] ?? []);
  if (units.length > 0) ask('systemctl', ['--no-reload', 'disable', ...units]);
}

export async function unpackKubectl() {
  say(`another kubectl is installed; unpacking Debian's ${kubectlPackage} beside it, so that tests can use both`);
  await unpackPackage(kubectlPackage, join(cache, 'kubectl-debian'));
}

/** Downloads a package and unpacks it into `folder`; nothing is installed. */
export async function unpackPackage(name, folder) {
  const download = `${folder}.download`;
  rmSync(download, { recursive: true, force: true });
  mkdirSync(download, { recursive: true });
  await withFreshLists(() => aptGet(`apt-download-${name}`, ['-o', 'APT::Sandbox::User=root', 'download', name], download));
  const remedy = `delete ${folder} and run the command again`;
  await runLogged(`dpkg-${name}`, 'sh', ['-c', 'dpkg-deb -x "$1"/*.deb "$1/files"', 'sh', download], { remedy });
  rmSync(folder, { recursive: true, force: true });
  await runLogged(`move-${name}`, 'mv', [join(download, 'files'), folder], { remedy });
  rmSync(download, { recursive: true, force: true });
}

/** Tries with the present package lists, and again with updated ones: most runs then need no `apt-get update`. */
export async function withFreshLists(work) {
  try {
    await work();
  } catch {
    say('refreshing the package lists');
    await aptGet('apt-update', ['update']);
    await work();
  }
}

function aptGet(name, args, cwd) {
  const update = 'apt-get update';
  const byHand = args[0] === 'update' ? update : `${update} && apt-get ${args.join(' ')}`;
  return runLogged(name, 'apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=600', ...args], {
    cwd,
    env: { DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
    remedy: `run \`${byHand}\` by hand, fix what it reports, and run the command again`,
  });
}

/**
 * invoke-rc.d(8) calls policy-rc.d before it starts a service. A host's own policy is respected; ours exists only during the installation.
 * One left by a killed set-up is recognised by its text and removed.
 */
async function withoutStartingServices(work) {
  const theirs = isTheirs();
  if (!theirs) writeFileSync(policyFile, policyText, { mode: 0o755 });
  try {
    await work();
  } finally {
    if (!theirs) rmSync(policyFile, { force: true });
  }
}

function isTheirs() {
  const found = lstatSync(policyFile, { throwIfNoEntry: false });
  return found !== undefined && !(found.isFile() && readFileSync(policyFile, 'utf8') === policyText);
}
