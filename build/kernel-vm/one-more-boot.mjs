import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { say } from '../setup/progress.mjs';
import { EndedBeforeJob, logsOf, runInVirtualMachine } from './vm.mjs';

/** Exit codes of a process that SIGILL, SIGTRAP, SIGABRT or SIGSEGV ended: V8 and the emulated CPU disagree. */
const crashed = new Set([132, 133, 134, 139]);

/**
 * Like `runInVirtualMachine`, but retries once if Node crashed in it, as it does now and then under emulation: the job itself, or one of
 * its processes, as reported by the guest's kernel. Also retries once if the guest's kernel itself ended early.
 *
 * @returns the job's exit code
 */
export async function runWithOneMoreBoot(job) {
  let code;
  try {
    code = await runInVirtualMachine(job);
  } catch (thrown) {
    if (!(thrown instanceof EndedBeforeJob)) throw thrown;
    say(`${thrown.message}; booting once more`);
    return await runInVirtualMachine(job);
  }
  const why = whyAgain(code, job);
  if (why === undefined) return code;
  say(`${why}, which emulation makes Node do now and then; booting once more`);
  return await runInVirtualMachine(job);
}

function whyAgain(code, { name, guest }) {
  if (code === 0) return undefined;
  if (crashed.has(code)) return `the job's process crashed (exit code ${code})`;
  // "traps: node[812] trap invalid opcode …", "node[812]: segfault at …"; on arm64 "node[812]: unhandled exception: …"
  const pattern = /^.*\bnode\[\d+\]:? (?:trap|segfault|general protection|unhandled exception).*$/m;
  const log = join(logsOf(name, guest), 'dmesg');
  const printed = existsSync(log) ? pattern.exec(readFileSync(log, 'utf8')) : null; // a stopped guest has none
  return printed === null ? undefined : `a process crashed in the guest (${printed[0].trim()})`;
}
