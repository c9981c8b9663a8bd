import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../setup/progress.mjs';

/** Kernel interface: Documentation/admin-guide/binfmt-misc.rst. */
const registry = '/proc/sys/fs/binfmt_misc';
const ours = 'seine-arm64';
const emulator = '/usr/bin/qemu-aarch64-static';
/** A 64-bit little-endian ELF file, executable or shared (the mask leaves the lowest bit of `e_type` out), `e_machine` 183: elf(5). */
const magic = '7f454c460201010000000000000000000200b700';
const mask = 'ffffffffffffff00fffffffffffffffffeffffff';

/**
 * Calls `work` while the kernel runs programs for arm64, in containers and changed roots too: flag F makes it open the emulator now. An
 * existing registration is used and kept; an added one is removed.
 *
 * @throws SetupError if the emulator is not installed
 */
export async function withEmulation(work) {
  if (!existsSync(emulator))
    throw new SetupError(`programs for arm64 cannot run on this host: ${emulator} is missing`, 'install it (Debian: qemu-user-static)');
  const undo = [];
  try {
    if (!existsSync(join(registry, 'register'))) {
      execFileSync('mount', ['-t', 'binfmt_misc', 'binfmt_misc', registry]);
      undo.push(() => execFileSync('umount', [registry]));
    }
    if (!isHandled()) register();
    // Also one that a killed run left.
    if (existsSync(join(registry, ours))) undo.push(() => writeFileSync(join(registry, ours), '-1'));
    return await work();
  } finally {
    for (const step of undo.reverse()) step();
  }
}

function isHandled() {
  const handlers = readdirSync(registry).filter((name) => name !== 'register' && name !== 'status');
  return handlers.some((name) => {
    const text = readFileSync(join(registry, name), 'utf8');
    return text.startsWith('enabled') && /^flags: .*F/m.test(text) && text.includes(`magic ${magic}`);
  });
}

function register() {
  const escaped = (hex) => hex.replaceAll(/../g, String.raw`\x$&`);
  writeFileSync(join(registry, 'register'), `:${ours}:M::${escaped(magic)}:${escaped(mask)}:${emulator}:F`);
}
