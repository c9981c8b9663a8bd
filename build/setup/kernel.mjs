import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ask, runLogged } from './commands.mjs';
import { unpackPackage, withFreshLists } from './debian.mjs';
import { cache } from './paths.mjs';
import { SetupError, say } from './progress.mjs';

/** The unpacked linux-image package: `boot/vmlinuz-VERSION` and `lib/modules/VERSION`. */
export const kernelFolder = join(cache, 'kernel', 'linux');

const metaPackages = { x64: 'linux-image-amd64', arm64: 'linux-image-arm64' };

export function kernelIsThere() {
  return kernelVersion() !== undefined && existsSync(join(kernelFolder, 'lib', 'modules', kernelVersion(), 'modules.dep'));
}

/** Version such as `6.1.0-37-amd64`; undefined if no kernel is unpacked in that folder. */
export function kernelVersion(folder = kernelFolder) {
  const modules = join(folder, 'lib', 'modules');
  return existsSync(modules) ? readdirSync(modules)[0] : undefined;
}

export async function downloadKernel() {
  const meta = metaPackages[process.arch];
  if (meta === undefined) throw new SetupError(`no kernel is known for ${process.arch}`, 'run it on an amd64 machine');
  // Old lists may lack it, or name a version that is no longer available.
  await withFreshLists(async () => {
    const name = /^\s*Depends: (linux-image-\S+)$/m.exec(ask('apt-cache', ['depends', meta]) ?? '')?.[1];
    if (name === undefined)
      throw new SetupError(`${meta} is not in the package lists`, 'look at the sources of apt, and run the command again');
    say(`downloading ${name} for the virtual machine (70 MB; it is unpacked, not installed)`);
    await unpackPackage(name, kernelFolder);
  });
  await runLogged('depmod', 'depmod', ['-b', kernelFolder, kernelVersion() ?? ''], {
    remedy: `delete ${kernelFolder} and run the command again`,
  });
}
