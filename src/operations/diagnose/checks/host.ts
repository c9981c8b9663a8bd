import { readdir, readFile, readlink, statfs } from 'node:fs/promises';
import type { Finding } from '../../../api/check.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

const MIB = 1024 * 1024;
/** Free space below which writes are about to fail; the journal of addresses and the copies of API objects need less. */
const ROOM_WARNED = 64 * MIB;
const ROOM_LEAST = 4 * MIB;
const FILES_LEAST = 64;
/** Used part of a limit above which it is nearly reached. */
const NEARLY = 0.8;
const FULL = 0.97;
/** Maximum number of descriptors of other processes that are read to count inotify instances. */
const LINKS_READ_MAX = 50_000;

interface DiskFacts {
  readonly path: string;
  readonly freeBytes: number;
  readonly freeFiles: number | undefined;
  /** Reason why the journal of addresses was last not written. */
  readonly journalError: string | undefined;
}

export interface DiskPort {
  readonly config: { readonly stateDir: string };
  readonly node: () => { readonly ipam: { readonly failure: Error | undefined } } | undefined;
}

/** Checks that there is space for the journal of addresses and the last known objects. */
export function disk({ config, node }: DiskPort): Check {
  return {
    name: 'disk',
    run: async (_, reporter) => {
      const path = config.stateDir;
      const { bavail, bsize, files, ffree } = await statfs(path);
      const journalError = node()?.ipam.failure?.message;
      reporter.finding(assessDisk({ path, freeBytes: bavail * bsize, freeFiles: files === 0 ? undefined : ffree, journalError }));
    },
  };
}

export function assessDisk({ path, freeBytes, freeFiles, journalError }: DiskFacts): Finding {
  const effect = 'no pod can start, because its address must be recorded first. Running pods are not affected';
  const remedy = `df -h ${path}; df -i ${path}`;
  const room = `${Math.floor(freeBytes / MIB)} MiB free for ${path}`;
  if (journalError !== undefined)
    return trouble('disk', 'problem', { what: `the journal of addresses cannot be written: ${journalError}`, effect, remedy });
  if (freeBytes < ROOM_LEAST || (freeFiles ?? FILES_LEAST) < FILES_LEAST) return trouble('disk', 'problem', { what: room, effect, remedy });
  if (freeBytes < ROOM_WARNED) return trouble('disk', 'warning', { what: room, effect: `soon ${effect}`, remedy });
  return fine('disk', room);
}

interface LimitFacts {
  /** Descriptors of this process. */
  readonly descriptors: { readonly open: number; readonly most: number };
  /** inotify instances of root, the user of kubelet, runtime and most containers. */
  readonly inotify: { readonly open: number | undefined; readonly most: number };
}

/** Checks file descriptors of the agent, and inotify instances of the host. */
export const limits: Check = {
  name: 'limits',
  run: async (_, reporter, signal) => {
    const open = (await readdir('/proc/self/fd')).length;
    const most = softLimit(await readFile('/proc/self/limits', 'utf8'));
    const instances = Number(await readFile('/proc/sys/fs/inotify/max_user_instances', 'utf8'));
    reportAll(reporter, assessLimits({ descriptors: { open, most }, inotify: { open: await inotifyInstances(signal), most: instances } }));
  },
};

/** Parses proc(5) `/proc/PID/limits`: `Max open files            1024                 1048576              files` */
export function softLimit(text: string): number {
  const found = /^Max open files\s+(\d+|unlimited)/m.exec(text)?.[1];
  return found === undefined || found === 'unlimited' ? Number.POSITIVE_INFINITY : Number(found);
}

export function assessLimits({ descriptors, inotify }: LimitFacts): readonly Finding[] {
  return [assessDescriptors(descriptors), assessInotify(inotify)];
}

function assessDescriptors({ open, most }: LimitFacts['descriptors']): Finding {
  const what = `${open} of ${most} file descriptors of the agent are open`;
  if (open < most * NEARLY) return fine('limits.descriptors', what);
  return trouble('limits.descriptors', open < most * FULL ? 'warning' : 'problem', {
    what,
    effect: 'without descriptors the agent opens no pod’s namespace and no connection: pods do not start',
    remedy: `prlimit --pid ${process.pid} --nofile=65536:65536`,
  });
}

function assessInotify({ open, most }: LimitFacts['inotify']): Finding {
  const words = {
    effect: 'kubelet, runtime and containers fail with "too many open files" when they want one more: kubectl logs -f, then pods',
    remedy: 'sysctl -w fs.inotify.max_user_instances=8192',
  };
  if (open === undefined) return fine('limits.inotify', `${most} inotify instances are allowed; how many are used is not known`);
  const what = `${open} of ${most} inotify instances of root are used`;
  if (open < most * NEARLY) return fine('limits.inotify', what);
  return trouble('limits.inotify', open < most * FULL ? 'warning' : 'problem', { what, ...words });
}

/** @returns undefined if there are too many descriptors to read, or reading them is forbidden */
async function inotifyInstances(signal: AbortSignal): Promise<number | undefined> {
  let [found, read] = [0, 0];
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  for (const pid of processes) {
    if (!(await isRoots(pid))) continue;
    const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []); // it has ended, or may not be read
    read += descriptors.length;
    if (read > LINKS_READ_MAX) return undefined;
    signal.throwIfAborted();
    const targets = await targetsOf(descriptors.map((fd) => `/proc/${pid}/fd/${fd}`));
    if (targets === undefined) return undefined;
    found += targets.filter((target) => target === 'anon_inode:inotify').length;
  }
  return found;
}

/**
 * Reads the targets of one process's descriptors.
 *
 * @returns undefined if we may not see them: AppArmor's profile for containers hides those of unconfined processes even from processes with
 *   every capability. It writes a line to the kernel's log for each try, so only one is made
 */
async function targetsOf(paths: readonly string[]): Promise<readonly string[] | undefined> {
  const [first] = paths;
  if (first === undefined) return [];
  const isForbidden = await readlink(first).then(
    () => false,
    (thrown: NodeJS.ErrnoException) => thrown.code === 'EACCES',
  );
  return isForbidden ? undefined : await Promise.all(paths.map((path) => readlink(path).catch(() => '')));
}

async function isRoots(pid: string): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return /^Uid:\s+0\s/m.test(status);
}
