import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { errnoOf } from '../../src/netlink/errno.ts';

/** Priority above other processes of the host, without delaying the kernel's own work. */
export const urgent = -15;

/**
 * Gives a process a higher (negative) or lower priority than others. Niceness alone counts only among processes of one session if Linux
 * groups processes by session, as it does by default: the group has a niceness too (sched(7), "The autogroup feature").
 *
 * @param niceness from -20 to 19
 * @returns restores both: the group of our own process is that of the shell it was started from, and outlives us
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

/** @returns undefined if there are no such groups */
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
