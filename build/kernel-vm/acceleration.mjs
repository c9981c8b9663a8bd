import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { kernelVersion } from '../setup/kernel.mjs';
import { say } from '../setup/progress.mjs';

/** @import { Guest } from './guest.mjs' */

/** How long the guest's kernel may take to print its first line (ms). With KVM it takes less than a second. */
const probeMs = 5_000;
/** Output of a guest that is inspected: firmware and kernel print less before the line that decides. */
const outputMax = 64 * 1024;
const emulation = ['-accel', 'tcg,thread=multi'];

/** @type {Map<string, Promise<boolean>>} */
const probes = new Map();

/**
 * Returns the command line of the guest's emulator with its acceleration: KVM where a guest boots with it, emulation elsewhere. On some hosts
 * `/dev/kvm` can be opened and the guest still never gets past its firmware, so the kernel is booted once to find out.
 *
 * @param {Guest} guest
 * @returns {Promise<readonly string[]>}
 */
export async function acceleratedEmulator(guest, { device = '/dev/kvm', limitMs = probeMs } = {}) {
  const { emulator, emulatorWithKvm, kernelFolder, console } = guest;
  if (emulatorWithKvm === undefined || !existsSync(device)) return [...emulator, ...emulation];
  const kvm = [...emulatorWithKvm, '-accel', 'kvm'];
  const kernel = join(kernelFolder, 'boot', `vmlinuz-${kernelVersion(kernelFolder)}`);
  const key = JSON.stringify([kvm, kernel]);
  const probe = probes.get(key) ?? printsVersion([...kvm, ...probeOptions(kernel, console)], limitMs);
  probes.set(key, probe);
  const boots = await probe;
  say(
    boots
      ? 'a guest boots with KVM'
      : `no guest boots with KVM within ${limitMs / 1_000} s: it is emulated, and takes five to ten times as long`,
  );
  return boots ? kvm : [...emulator, ...emulation];
}

/** A guest without disks: its kernel ends in a panic, unless it is stopped before. */
function probeOptions(kernel, serial) {
  return [
    ...['-m', '256', '-nodefaults', '-no-user-config', '-nographic', '-serial', 'stdio', '-no-reboot'],
    ...['-kernel', kernel, '-append', `console=${serial} panic=-1`],
  ];
}

/**
 * @param {readonly string[]} command
 * @param {number} limitMs
 * @returns {Promise<boolean>}
 */
function printsVersion([program = '', ...options], limitMs) {
  return new Promise((resolve) => {
    const machine = spawn(program, options, { stdio: ['ignore', 'pipe', 'ignore'] });
    const settle = (boots) => {
      clearTimeout(limit);
      machine.kill('SIGKILL');
      resolve(boots);
    };
    const limit = setTimeout(() => settle(false), limitMs);
    let output = '';
    machine.stdout.setEncoding('latin1').on('data', (part) => {
      output = (output + part).slice(-outputMax);
      if (output.includes('Linux version ')) settle(true);
    });
    machine.once('error', () => settle(false));
    machine.once('close', () => settle(false));
  });
}
