import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { SetupError, say } from './progress.mjs';

const waitSeconds = 1800;

/**
 * Calls `work` while no other set-up with the same file does.
 *
 * flock(2) locks belong to the open file, not to a process: flock(1) locks the descriptor it inherits from us and ends, and the lock is
 * this process's until it closes the file or ends. A stale lock is not possible.
 */
export async function exclusively(file, work) {
  mkdirSync(dirname(file), { recursive: true });
  const fd = openSync(file, 'a', 0o600);
  try {
    if (flock(fd, ['-n']) !== 0) {
      say('another set-up is running on this machine; waiting for it');
      if (flock(fd, ['-w', String(waitSeconds)]) !== 0)
        throw new SetupError(
          `no lock on ${file} within ${waitSeconds} s`,
          'end the other set-up, or wait for it, and run the command again',
        );
    }
    return await work();
  } finally {
    closeSync(fd);
  }
}

function flock(fd, options) {
  return spawnSync('flock', [...options, '3'], { stdio: ['ignore', 'ignore', 'inherit', fd] }).status;
}
