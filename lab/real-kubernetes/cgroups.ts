import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const mountPoint = '/sys/fs/cgroup';
const removeDeadlineMs = 10_000;
const pollMs = 20;

/** Prefix of every control group of a lab. */
function prefixOf(labId: string): string {
  return `seine-${labId}-`;
}

export function cgroupOf(labId: string, node: string): string {
  return `${prefixOf(labId)}${node}`;
}

/** Every hierarchy's root: one on a host with cgroup v2, one per controller with v1. */
function hierarchies(): string[] {
  if (existsSync(join(mountPoint, 'cgroup.controllers'))) return [mountPoint];
  return folders(mountPoint);
}

/** Creates the group below which a kubelet puts its pods. */
export function createCgroup(name: string): void {
  for (const root of hierarchies()) {
    const folder = join(root, name);
    mkdirSync(folder, { recursive: true });
    // v1: a group without CPUs and memory nodes takes no process.
    for (const file of ['cpuset.cpus', 'cpuset.mems'])
      if (existsSync(join(root, 'cpuset.sched_load_balance')) && existsSync(join(folder, file)))
        writeFileSync(join(folder, file), readFileSync(join(root, file)));
    if (existsSync(join(root, 'cgroup.subtree_control'))) delegate(root);
  }
}

/** v2: children have the controllers that their parent delegates. A missing one is skipped. */
function delegate(root: string): void {
  for (const controller of readFileSync(join(root, 'cgroup.controllers'), 'utf8').split(/\s+/).filter(Boolean)) {
    try {
      writeFileSync(join(root, 'cgroup.subtree_control'), `+${controller}`);
    } catch {
      // Busy, as in a container: the kubelet reports what it lacks.
    }
  }
}

/**
 * Kills the processes in the groups of a lab and removes the groups, whichever process created them: processes of containers have no mark
 * of the lab.
 *
 * @returns number of processes
 */
export async function removeCgroups(labId: string, signal: AbortSignal): Promise<number> {
  const roots = hierarchies().flatMap((root) =>
    folders(root)
      .filter((folder) => folder.slice(root.length + 1).startsWith(prefixOf(labId)))
      .toSorted(),
  );
  const killed = new Set<number>();
  for (const deadline = performance.now() + removeDeadlineMs; performance.now() < deadline; ) {
    const left = roots.flatMap(below);
    for (const pid of left.flatMap(processesOf)) {
      killed.add(pid);
      kill(pid);
    }
    const stay = left.filter((folder) => !removed(folder));
    if (stay.length === 0) break;
    await sleep(pollMs, undefined, { signal });
  }
  return killed.size;
}

/** A group and those below it, the innermost first. */
function below(folder: string): string[] {
  return existsSync(folder) ? [...folders(folder).flatMap(below), folder] : [];
}

function folders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [join(folder, entry.name)] : []));
  } catch {
    // Deleted meanwhile.
    return [];
  }
}

function processesOf(folder: string): number[] {
  try {
    return readFileSync(join(folder, 'cgroup.procs'), 'utf8')
      .split('\n')
      .map(Number)
      .filter((pid) => pid > 0);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

function removed(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return !existsSync(folder);
  }
}
