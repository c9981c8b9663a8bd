import { existsSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { errnoOf } from '../../src/netlink/errno.ts';

/** Before whatever else runs on the machine, without keeping the kernel from its own work. */
export const urgent = -15;

/**
 * Lets a process run before others (negative) or after them. Niceness alone counts only among processes of one session where
 * Linux makes a group of each, as it does by default: the group has a niceness too (sched(7), "The autogroup feature").
 *
 * @param niceness from -20 to 19
 */
export function setUrgency(pid: number, niceness: number): void {
  setPriority(pid, niceness);
  const group = `/proc/${pid}/autogroup`;
  if (!existsSync(group)) return;
  try {
    writeFileSync(group, String(niceness));
  } catch (thrown) {
    // The first session has no group of its own: its processes are weighed one by one.
    if (errnoOf(thrown) !== 'EINVAL') throw thrown;
  }
}
