import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';

/** System directories that other programs need as well: restricting one of these would break the host. */
const shared = new Set([
  '/',
  ...'dev dev/shm etc home opt root run srv tmp usr var var/lib var/log var/run var/tmp'.split(' ').map((name) => `/${name}`),
]);

/**
 * Makes a directory with mode 0700, or restricts an existing one of this user: an image or a volume may have created it with another mode.
 *
 * A directory of another user, or a link in its place, is never used: it may be there so that the agent's files are read or replaced.
 *
 * @throws SeineError `INVALID_INPUT` for such a path and for a system directory, `UNAVAILABLE` if it cannot be made
 */
export function privateFolder(path: string): void {
  if (shared.has(resolve(path))) throw new SeineError('INVALID_INPUT', `${path} is a shared folder: a folder of its own is needed`);
  const fd = open(path);
  try {
    const { uid, mode } = fstatSync(fd);
    const own = process.geteuid?.();
    if (uid !== own) throw new SeineError('INVALID_INPUT', `${path} belongs to user ${uid}, not to ${own}`);
    if ((mode & 0o077) !== 0) fchmodSync(fd, 0o700);
  } finally {
    closeSync(fd);
  }
}

function open(path: string): number {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code === 'ENOTDIR' || code === 'ELOOP' || code === 'EEXIST')
      throw new SeineError('INVALID_INPUT', `${path} is a link or no folder`, { cause });
    throw new SeineError('UNAVAILABLE', `${path} cannot be created as a folder`, { cause });
  }
}
