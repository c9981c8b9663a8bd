/**
 * Open vSwitch of other Debian releases, next to the host's own: its programs and the libraries that they were linked with, unpacked into a
 * cache outside of the tree and installed nowhere.
 *
 * A program is started by the loader of its own C library, with the path of its libraries. So it sees the host's files, namespaces and
 * sockets like an installed one, needs no mounts, and leaves nothing when it is killed.
 */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readdirSync, readSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { ask, runLogged } from '../setup/commands.mjs';
import { download, remedy } from '../setup/debian-mirror.mjs';
import { exclusively } from '../setup/lock.mjs';
import { SetupError, say } from '../setup/progress.mjs';

/** The Debian release with each version. The last one changes over time: the version of the unpacked program is checked. */
export const debianOf = { 3.1: 'bookworm', 3.5: 'trixie', '4.0': 'sid' };

const switchPackage = 'openvswitch-switch';
const packageFiles = /^(?:lib|openvswitch-).*\.deb$/;
/** Debian selects one of two builds of `ovs-vswitchd` by a link that the package's installation creates. */
const programFolders = ['usr/bin', 'usr/sbin', 'usr/lib/openvswitch-switch'];
const elf = Buffer.from([0x7f, 0x45, 0x4c, 0x46]);

/**
 * The environment in which commands find this version first, unpacked if absent. Empty if the host has this version.
 *
 * @param {string} version of two numbers
 * @throws SetupError if there is no such version, or the download fails
 */
export async function ovsEnvironment(version) {
  const release = Object.hasOwn(debianOf, version) ? debianOf[version] : undefined;
  if (release === undefined)
    throw new SetupError(`no Debian release is known for Open vSwitch ${version}`, `one of ${Object.keys(debianOf).join(', ')}`);
  if (versionOf('ovs-vswitchd') === version) return {};
  const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'seine', 'ovs', version);
  const programs = join(folder, 'bin');
  if (!existsSync(folder)) await exclusively(`${folder}.lock`, () => existsSync(folder) || unpack(version, release, folder));
  return {
    PATH: [programs, process.env.PATH ?? ''].join(delimiter),
    OVS_PKGDATADIR: join(folder, 'files', 'usr', 'share', 'openvswitch'),
  };
}

/** Two numbers, or undefined if it does not run. */
function versionOf(program) {
  return /\(Open vSwitch\) (\d+\.\d+)/.exec(ask(program, ['--version']) ?? '')?.[1];
}

/** Unpacks atomically: an interrupted download leaves a temporary folder, which the next one removes. */
async function unpack(version, release, folder) {
  const draft = `${folder}.draft`;
  const [downloaded, files] = [join(draft, 'download'), join(draft, 'files')];
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(files, { recursive: true });
  say(`fetching Open vSwitch ${version} of Debian ${release}, once`);
  const archives = await download({ name: `ovs-${version}`, release, include: switchPackage, folder: downloaded });
  const each = `for file; do dpkg-deb -x "$file" "${files}"; done`;
  const packages = readdirSync(archives).filter((name) => packageFiles.test(name));
  await runLogged(`ovs-${version}-unpack`, 'sh', ['-ec', each, 'sh', ...packages.map((name) => join(archives, name))], { remedy });
  rmSync(downloaded, { recursive: true });
  writeLaunchers(draft);
  const came = versionOf(join(draft, 'bin', 'ovs-vswitchd'));
  if (came !== version)
    throw new SetupError(`Debian ${release} has Open vSwitch ${came ?? 'that does not run'}`, 'see `debianOf` in build/ovs/programs.mjs');
  renameSync(draft, folder);
}

/** Writes a launcher for each program, by its own name, which finds loader and libraries relative to itself. */
function writeLaunchers(folder) {
  const files = join(folder, 'files');
  const libraries = onlyOne(files, 'usr/lib', /-linux-gnu\w*$/);
  const loader = onlyOne(files, libraries, /^ld-linux.*\.so\.\d+$/);
  mkdirSync(join(folder, 'bin'));
  for (const [name, path] of programsBelow(files)) {
    const launcher = join(folder, 'bin', name);
    const line = `exec "$files/${loader}" --library-path "$files/${libraries}" --argv0 "$0" "$files/${path}" "$@"`;
    writeFileSync(launcher, `#!/bin/sh\nfiles=\${0%/bin/*}/files\n${line}\n`);
    chmodSync(launcher, 0o755);
  }
}

/** Path of the one entry of a folder with that name. */
function onlyOne(files, folder, name) {
  const [found] = readdirSync(join(files, folder)).filter((entry) => name.test(entry));
  if (found === undefined) throw new SetupError(`what came has nothing like ${name} in ${folder}`, 'this Debian is laid out otherwise');
  return join(folder, found);
}

/** Name and path of compiled programs; scripts need other packages. */
function programsBelow(files) {
  return programFolders
    .filter((folder) => existsSync(join(files, folder)))
    .flatMap((folder) => readdirSync(join(files, folder)).map((name) => [name, join(folder, name)]))
    .filter(([name, path]) => /^ovs/.test(name) && isCompiled(join(files, path)));
}

function isCompiled(path) {
  const [fd, head] = [openSync(path, 'r'), Buffer.alloc(elf.length)];
  try {
    readSync(fd, head, 0, head.length, 0);
  } finally {
    closeSync(fd);
  }
  return head.equals(elf);
}
