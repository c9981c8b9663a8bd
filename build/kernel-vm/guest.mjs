import { join } from 'node:path';
import { kernelFolder } from '../setup/kernel.mjs';
import { cache } from '../setup/paths.mjs';

/**
 * A virtual machine.
 *
 * @typedef {object} Guest
 * @property {string} home folder of its initrd and of the logs
 * @property {string} files folder that it sees as its root, under its own overlay: its writes go to memory
 * @property {string} busybox its first program, linked statically
 * @property {string} kernelFolder an unpacked linux-image package, whose modules depmod has indexed
 * @property {string} modulesInside path of the modules of that package in the guest
 * @property {readonly string[]} emulator command line without memory, CPUs, kernel and shares
 * @property {readonly string[]} [emulatorWithKvm] the same with KVM; absent if the guest is of another architecture
 * @property {string} console name of its serial line
 */

/**
 * The guest with this host's architecture and files. Memory protection keys are disabled: V8 would guard its code pages with them, and
 * under emulation it has aborted in that code.
 *
 * @type {Guest}
 */
export const ownGuest = {
  home: join(cache, 'kernel'),
  files: '/',
  busybox: '/bin/busybox',
  kernelFolder,
  modulesInside: join(kernelFolder, 'lib', 'modules'),
  emulator: ['qemu-system-x86_64', '-machine', 'pc', '-cpu', 'max,-pku'],
  // Without `arch-capabilities` because KVM in a virtual machine may refuse to set that register (MSR 0x10a).
  emulatorWithKvm: ['qemu-system-x86_64', '-machine', 'pc', '-cpu', 'max,-arch-capabilities'],
  console: 'ttyS0',
};
