import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { acceleratedEmulator } from '../../build/kernel-vm/acceleration.mjs';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-kvm-'));
  mkdirSync(join(folder, 'boot'));
  mkdirSync(join(folder, 'lib', 'modules', '6.1.0'), { recursive: true });
  writeFileSync(join(folder, 'boot', 'vmlinuz-6.1.0'), '');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A guest whose emulator is this script. */
function guest(script: string) {
  const program = join(folder, 'qemu');
  writeFileSync(program, `#!/bin/sh\necho "$@" >>${join(folder, 'calls')}\n${script}\n`);
  chmodSync(program, 0o755);
  const place = { home: folder, files: '/', busybox: '/bin/busybox', kernelFolder: folder, modulesInside: folder };
  return { ...place, emulator: [program, '-cpu', 'max,-pku'], emulatorWithKvm: [program, '-cpu', 'max'], console: 'ttyS0' };
}

const device = '/dev/null';

it('uses KVM where the kernel of a guest prints its version', async () => {
  const booted = guest('echo SeaBIOS; echo "[0.0] Linux version 6.1.0"; exec sleep 60');
  expect(await acceleratedEmulator(booted, { device })).toEqual([...booted.emulatorWithKvm, '-accel', 'kvm']);
  expect(await acceleratedEmulator(booted, { device })).toContain('kvm');
  expect(readFileSync(join(folder, 'calls'), 'utf8').trimEnd().split('\n')).toHaveLength(1); // one probe for all guests of a run
});

it.each([
  ['whose firmware never finishes', 'echo SeaBIOS; exec sleep 60', 300],
  ['whose emulator fails at once', 'echo "failed to set MSR" >&2; exit 134', 60_000],
  ['whose emulator prints without end', 'exec yes', 300],
])('emulates a guest %s', async (_, script, limitMs) => {
  const stuck = guest(script);
  expect(await acceleratedEmulator(stuck, { device, limitMs })).toEqual([...stuck.emulator, '-accel', 'tcg,thread=multi']);
});

it('emulates without a probe where there is no device, or the guest is of another architecture', async () => {
  const { emulatorWithKvm, ...other } = guest('exit 1');
  const emulated = [...other.emulator, '-accel', 'tcg,thread=multi'];
  expect(await acceleratedEmulator({ ...other, emulatorWithKvm }, { device: join(folder, 'none') })).toEqual(emulated);
  expect(await acceleratedEmulator(other, { device })).toEqual(emulated);
  expect(() => readFileSync(join(folder, 'calls'))).toThrow('ENOENT');
});
