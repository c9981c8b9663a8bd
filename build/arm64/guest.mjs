import { join } from 'node:path';
import { cache } from '../setup/paths.mjs';

const home = join(cache, 'arm64');
const files = join(home, 'root');

/** Where the guest has the project. */
export const projectInside = '/seine';

/**
 * An emulated machine with a Debian of its own. An old processor on purpose: what runs on it runs on all.
 *
 * @type {import('../kernel-vm/guest.mjs').Guest}
 */
export const arm64Guest = {
  home,
  files,
  busybox: join(files, 'bin', 'busybox'),
  kernelFolder: join(files, 'opt', 'kernel'),
  modulesInside: '/opt/kernel/lib/modules',
  emulator: ['qemu-system-aarch64', '-machine', 'virt', '-cpu', 'cortex-a72'],
  console: 'ttyAMA0',
};
