import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { errnoOf } from '../../src/netlink/errno.ts';

/** Before whatever else runs on the machine, without keeping the kernel from its own work. */
export const urgent = -15;

/**
 * Lets a process run before others (negative) or after them. Niceness alone counts only among processes of one session where
 * Linux makes a group of each, as it does by default: the group has a niceness too (sched(7), "The autogroup feature").
 *
 * @param niceness from -20 to 19
 * @returns puts both back: the group of our own process is that of the shell it was started from, and stays when we end
 */
export function setUrgency(pid: number, niceness: number): () => void {
  const [former, formerOfGroup] = [getPriority(pid), groupNiceness(pid)];
  setPriority(pid, niceness);
  setGroupNiceness(pid, niceness);
  return () => {
    setPriority(pid, former);
    if (formerOfGroup !== undefined) setGroupNiceness(pid, formerOfGroup);
  };
}

const groupFile = (pid: number): string => `/proc/${pid}/autogroup`;

/** @returns undefined where there are no such groups */
function groupNiceness(pid: number): number | undefined {
  if (!existsSync(groupFile(pid))) return undefined;
  const [, niceness] = / nice (-?\d+)/.exec(readFileSync(groupFile(pid), 'utf8')) ?? [];
  return niceness === undefined ? undefined : Number(niceness);
}

function setGroupNiceness(pid: number, niceness: number): void {
  if (!existsSync(groupFile(pid))) return;
  try {
    writeFileSync(groupFile(pid), String(niceness));
  } catch (thrown) {
    // The first session has no group of its own: its processes are weighed one by one.
    if (errnoOf(thrown) !== 'EINVAL') throw thrown;
  }
}
