import { spawn } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { kernelVersion } from '../setup/kernel.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';
import { acceleratedEmulator } from './acceleration.mjs';
import { ownGuest } from './guest.mjs';
import { makeInitrd } from './initrd.mjs';

/** @import { Guest } from './guest.mjs' */

const here = import.meta.dirname;
const pollMs = 250;
const memoryMiB = 6144;

/**
 * Folder in which the console, the output of a job and the guest's kernel log are kept after the guest ends, until the next job of the
 * name.
 */
export const logsOf = (name, guest = ownGuest) => join(guest.home, 'logs', name);

/**
 * Boots a virtual machine on Debian's kernel, runs a script in it as root and ends with the script's exit code.
 *
 * The guest sees files of the host, all of them if it has its architecture, under its own overlay: its writes go to memory, and none of
 * them remain. The script's output appears here immediately, stdout on stdout and stderr on stderr.
 *
 * @param {{ name: string, script: string, limitSeconds: number, guest?: Guest }} job `script` is the text of a bash script; jobs of
 * different
 *   names can run at the same time. The folder of the job's logs is mounted at /run/seine-vm, and the job may add to it
 */
export async function runInVirtualMachine({ name, script, limitSeconds, guest = ownGuest }) {
  const logsFolder = logsOf(name, guest);
  prepareShared(logsFolder, script, guest);
  const consoleLog = openSync(join(logsFolder, 'console.log'), 'w');
  const [emulator, ...options] = await acceleratedEmulator(guest);
  const machine = spawn(emulator, [...options, ...machineOptions(guest, initrd(guest), logsFolder)], {
    stdio: ['ignore', consoleLog, consoleLog],
  });
  const outputs = [
    follow(join(logsFolder, 'stdout'), process.stdout),
    follow(join(logsFolder, 'stderr'), process.stderr),
    followPhases(join(logsFolder, 'phases')),
  ];
  const copyOutput = () => {
    for (const more of outputs) more();
  };
  const timer = setInterval(copyOutput, pollMs);
  try {
    const ended = await whenEnded(machine, limitSeconds);
    copyOutput();
    return exitCode(logsFolder, ended, limitSeconds);
  } finally {
    clearInterval(timer);
    closeSync(consoleLog);
  }
}

function prepareShared(logsFolder, script, guest) {
  rmSync(logsFolder, { recursive: true, force: true });
  mkdirSync(logsFolder, { recursive: true });
  copyFileSync(join(here, 'guest.sh'), join(logsFolder, 'guest.sh'));
  writeFileSync(join(logsFolder, 'modules'), guest.modulesInside);
  writeFileSync(join(logsFolder, 'job.sh'), script);
  for (const name of ['stdout', 'stderr', 'phases']) writeFileSync(join(logsFolder, name), '');
}

/** Path of the initrd for the unpacked kernel and the present `init`. */
function initrd({ kernelFolder, busybox, home }) {
  const version = kernelVersion(kernelFolder);
  if (version === undefined) throw new SetupError('no kernel is unpacked', 'run `npm run demo:kernel`, which fetches it');
  const init = join(here, 'init');
  const hash = contentHash([init, join(here, 'initrd.mjs')]).slice(0, 12);
  const file = join(home, `initrd-${version}-${hash}`);
  if (!existsSync(file)) makeInitrd({ kernelFolder, version, busybox, init, file });
  return file;
}

/**
 * The kernel counts ten ticks while it boots and gives up if they are late ("IO-APIC + timer doesn't work!"), as on a busy host. Source:
 * the kernel's admin-guide/kernel-parameters.
 */
const timers = 'no_timer_check';

function machineOptions({ kernelFolder, files, console }, initrdFile, logsFolder) {
  const share = (path, tag, more) => ['-virtfs', `local,path=${path},mount_tag=${tag},security_model=none,${more}multidevs=remap`];
  return [
    ...['-smp', String(Math.min(4, availableParallelism()))],
    ...['-m', String(memoryMiB), '-nodefaults', '-no-user-config', '-nographic', '-serial', 'stdio', '-no-reboot'],
    ...['-kernel', join(kernelFolder, 'boot', `vmlinuz-${kernelVersion(kernelFolder)}`), '-initrd', initrdFile],
    ...['-append', `console=${console} quiet panic=-1 ${timers} mitigations=off random.trust_cpu=on`],
    ...['-device', 'virtio-rng-pci'],
    ...share(files, 'hostroot', 'readonly=on,'),
    ...share(logsFolder, 'shared', ''),
  ];
}

/** Resolves when the guest is off: `limit` if it was stopped after its time, `signal` if a signal stopped it. */
async function whenEnded(machine, limitSeconds) {
  let reason = 'off';
  const stop = (why) => {
    reason = why;
    machine.kill('SIGKILL');
  };
  const interrupt = () => stop('signal');
  const limit = setTimeout(() => stop('limit'), limitSeconds * 1000);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, interrupt);
  try {
    await new Promise((resolve, reject) => {
      machine.once('error', reject);
      machine.once('close', resolve);
    });
    return reason;
  } finally {
    clearTimeout(limit);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, interrupt);
  }
}

/** The guest panicked or crashed, perhaps before the job began. */
export class EndedBeforeJob extends SetupError {}

function exitCode(logsFolder, ended, limitSeconds) {
  const file = join(logsFolder, 'exit-code');
  if (ended === 'signal') return 130;
  if (existsSync(file)) return Number(readFileSync(file, 'utf8'));
  const advice = `read console.log, stdout and stderr in ${logsFolder}`;
  if (ended === 'limit') throw new SetupError(`the virtual machine did not end within ${limitSeconds} s`, advice);
  throw new EndedBeforeJob('the virtual machine ended before its job', advice);
}

/** Copies the data appended to a file of the shared folder since the last call. */
function follow(path, stream) {
  const fd = openSync(path, 'r');
  const buffer = Buffer.alloc(64 << 10);
  let position = 0;
  return () => {
    for (;;) {
      const length = readSync(fd, buffer, 0, buffer.length, position);
      if (length === 0) return;
      position += length;
      stream.write(Buffer.from(buffer.subarray(0, length)));
    }
  };
}

function followPhases(path) {
  return follow(path, {
    write: (bytes) => say(`virtual machine, second ${bytes.toString('utf8').trimEnd().replaceAll('\n', '; second ')}`),
  });
}
