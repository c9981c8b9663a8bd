import { readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { livingProcess } from './machine/files.ts';
import { unmountBelow } from './machine/mounts.ts';
import { deleteNetns, netnsOfLab } from './machine/netns.ts';
import { endProcesses, markedProcesses, type ProcessId } from './machine/process.ts';
import { ovsProcess } from './node/ovs.ts';
import { labIdOf, labPaths, nodePaths } from './plan/names.ts';
import { removeCgroups } from './real-kubernetes/cgroups.ts';
import { bulkFolder } from './real-kubernetes/paths.ts';

const daemonGraceMs = 3_000;
const graceMs = 3_000;

/** Objects that `down` found and removed. */
interface Removed {
  readonly processes: number;
  readonly namespaces: number;
  readonly files: boolean;
}

/**
 * Removes a lab in any state: does not contact its daemon, reads no plan. Processes are found by the mark they inherited and by pid files,
 * namespaces by name. It is idempotent.
 *
 * @param dir a real path, see `realLabDir`
 */
export async function removeLab(dir: string, signal: AbortSignal): Promise<Removed> {
  const id = labIdOf(dir);
  const paths = labPaths(dir);
  const daemon = livingProcess(paths.daemonPid);
  if (daemon) await endProcesses([daemon], daemonGraceMs);
  const processes = unique([...markedProcesses(id), ...recordedProcesses(dir)]);
  await endProcesses(processes, graceMs);
  const contained = await removeCgroups(id, signal);
  await unmountBelow(dir, signal);
  const namespaces = netnsOfLab(id);
  for (const name of namespaces) await deleteNetns(name, signal);
  return { processes: processes.length + contained + (daemon ? 1 : 0), namespaces: namespaces.length, files: removeFiles(dir) };
}

/** Processes by their pid files: the second way to find them, should the first fail. */
function recordedProcesses(dir: string): ProcessId[] {
  return entriesOf(labPaths(dir).nodes).flatMap((node) => {
    const paths = nodePaths(dir, node);
    const found = [livingProcess(paths.agentPid), ovsProcess(paths.dir, 'ovs-vswitchd'), ovsProcess(paths.dir, 'ovsdb-server')];
    return found.flatMap((id) => id ?? []);
  });
}

function unique(ids: readonly ProcessId[]): ProcessId[] {
  return [...new Map(ids.map((id) => [id.pid, id])).values()];
}

/** Removes only files of a lab; the folder itself only if it contains nothing else. */
function removeFiles(dir: string): boolean {
  const paths = labPaths(dir);
  const ours = [...Object.values(paths).filter((path) => path !== dir), join(dir, 'apiserver.port')];
  const present = entriesOf(dir).map((name) => join(dir, name));
  for (const path of ours) rmSync(path, { recursive: true, force: true });
  rmSync(join(bulkFolder, labIdOf(dir)), { recursive: true, force: true });
  removeIfEmpty(bulkFolder);
  if (present.length > 0 && entriesOf(dir).length === 0) rmdirSync(dir);
  return present.some((path) => ours.includes(path));
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // The files of another lab are there, or none.
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Not there: nothing to remove.
    return [];
  }
}
