import { createHash } from 'node:crypto';
import { root } from '../setup/paths.mjs';

const digits = 6;

/**
 * Folder of a test's lab: differs between checkouts, and is the same in the next run, which removes the remains of a killed one.
 *
 * @param name of the test; short, because paths of sockets are
 */
export function labFolderOf(name) {
  return `/run/seine-${name}-${createHash('sha256').update(root).digest('hex').slice(0, digits)}`;
}
