import { createHash } from 'node:crypto';
import { root } from '../setup/paths.mjs';

const digits = 6;

/**
 * Where a test has its lab: not where the same test of another checkout has it, and the same in the next run, which takes down what a killed one left.
 *
 * @param name of the test; short, as sockets' paths are
 */
export function labFolderOf(name) {
  return `/run/seine-${name}-${createHash('sha256').update(root).digest('hex').slice(0, digits)}`;
}
