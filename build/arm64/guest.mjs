import { join } from 'node:path';
import { cache } from '../setup/paths.mjs';

const home = join(cache, 'arm64');
const files = join(home, 'root');

/** Path of the project in the guest. */
export const projectInside = '/seine';

/**
 * An emulated host with its own Debian. It has an old CPU on purpose: programs that run on it run on all.
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
