import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { netnsPath } from '../../lab/plan/names.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

/** Processes with a name and in a network namespace, in containers too. */
export function processesIn(netns: string, name: string): readonly number[] {
  const { ino } = statSync(netnsPath(netns));
  return processIds()
    .filter((pid) => isIt(join('/proc', pid), name, ino))
    .map(Number);
}

function processIds(): readonly string[] {
  return readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
}

function isIt(process: string, name: string, ino: number): boolean {
  try {
    return readFileSync(join(process, 'comm'), 'utf8').trim() === name && statSync(join(process, 'ns', 'net')).ino === ino;
  } catch {
    return false; // it has ended meanwhile
  }
}

/** Processes whose command line names a folder, such as that of a lab. */
export function processesNaming(folder: string, names: readonly string[]): readonly number[] {
  return processIds()
    .filter((pid) => names.some((name) => commandLine(pid)[0]?.endsWith(`/${name}`)) && commandLine(pid).join(' ').includes(folder))
    .map(Number);
}

function commandLine(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // it has ended meanwhile
  }
}

/** Maximum CPU shares, in either version of control groups. */
const most = { v1: { file: 'cpu.shares', value: '262144' }, v2: { file: 'cpu.weight', value: '10000' } } as const;

/**
 * Gives a process in a container priority over other processes of the host: its niceness counts in its own control group only, so the group
 * of its node, the lab's, gets priority too. Those below belong to the kubelet: it reads the shares there as requests to the scheduler.
 */
export function letRunFirst(pid: number): void {
  setUrgency(pid, urgent);
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n');
  const v1 = groups.map((line) => /^\d+:(?:[a-z]+,)*cpu(?:,[a-z]+)*:\/([^/]+)/.exec(line)?.[1]).find((name) => name !== undefined);
  const v2 = groups.map((line) => /^0::\/([^/]+)/.exec(line)?.[1]).find((name) => name !== undefined);
  const [{ file, value }, top] = v1 === undefined ? [most.v2, '/sys/fs/cgroup'] : [most.v1, '/sys/fs/cgroup/cpu'];
  const group = v1 ?? v2;
  if (group?.startsWith('seine-')) writeFileSync(join(top, group, file), value);
}
