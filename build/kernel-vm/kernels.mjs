/** Kernels of other Debian releases for the virtual machine, unpacked into a cache outside of the tree and installed nowhere. */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { runLogged } from '../setup/commands.mjs';
import { download, remedy } from '../setup/debian-mirror.mjs';
import { kernelVersion } from '../setup/kernel.mjs';
import { exclusively } from '../setup/lock.mjs';
import { cache } from '../setup/paths.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { ownGuest } from './guest.mjs';

/** @import { Guest } from './guest.mjs' */

/** The Debian release with each version. */
export const debianOfKernel = { 6.12: 'trixie' };

const metaPackage = 'linux-image-amd64';
const kernelFile = /^linux-image-\d.*\.deb$/;

/**
 * The guest with another kernel, which is downloaded if absent; with the default kernel if none is named.
 *
 * @param {string | undefined} version of two numbers
 * @returns {Promise<Guest>}
 * @throws SetupError if there is no such version, or the download fails
 */
export async function guestWithKernel(version) {
  if (version === undefined) return ownGuest;
  const release = Object.hasOwn(debianOfKernel, version) ? debianOfKernel[version] : undefined;
  if (release === undefined || process.arch !== 'x64')
    throw new SetupError(
      `no Debian release is known for a kernel ${version}`,
      `one of ${Object.keys(debianOfKernel).join(', ')}, on amd64`,
    );
  const kernelFolder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'seine', 'kernel', version);
  if (!existsSync(kernelFolder))
    await exclusively(`${kernelFolder}.lock`, () => existsSync(kernelFolder) || unpack(version, release, kernelFolder));
  const home = join(cache, 'kernel', version);
  mkdirSync(home, { recursive: true });
  return { ...ownGuest, home, kernelFolder, modulesInside: join(kernelFolder, 'lib', 'modules') };
}

/** Unpacks atomically: an interrupted download leaves a temporary folder, which the next one removes. */
async function unpack(version, release, folder) {
  const draft = `${folder}.draft`;
  const files = join(draft, 'files');
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(files, { recursive: true });
  say(`fetching a kernel ${version} of Debian ${release}, once`);
  const archives = await download({ name: `kernel-${version}`, release, include: metaPackage, folder: join(draft, 'download') });
  const [archive] = readdirSync(archives).filter((name) => kernelFile.test(name));
  if (archive === undefined) throw new SetupError(`Debian ${release} gave no kernel`, remedy);
  await runLogged(`kernel-${version}-unpack`, 'dpkg-deb', ['-x', join(archives, archive), files], { remedy });
  // Debian 13 has modules below /usr.
  if (!existsSync(join(files, 'lib'))) symlinkSync('usr/lib', join(files, 'lib'));
  const came = kernelVersion(files) ?? '';
  if (!came.startsWith(`${version}.`))
    throw new SetupError(`Debian ${release} has the kernel ${came}`, 'see `debianOfKernel` in build/kernel-vm/kernels.mjs');
  await runLogged(`kernel-${version}-depmod`, 'depmod', ['-b', files, came], { remedy });
  renameSync(files, folder);
  rmSync(draft, { recursive: true });
}
