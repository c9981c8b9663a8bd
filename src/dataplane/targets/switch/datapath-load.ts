import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { type KernelDatapath, listKernelDatapaths } from '../../../netlink/kernel-datapath.ts';
import { NetlinkSocket } from '../../../netlink/socket.ts';
import { readSysctl } from '../../../netlink/sysctl.ts';
import { askDaemonNumbers, type NumberCommand } from './daemon-numbers.ts';

/** Use of a table of tracked connections, which both families share. */
export interface ConnectionTable {
  /** `kernel`: of the node's network namespace, also for pods on the kernel data path; `userspace`: for pods on the userspace data path. */
  readonly table: 'kernel' | 'userspace';
  readonly entries: number;
  /** Maximum number of connections: at the limit, packets of new connections are dropped. */
  readonly limit: number;
}

/** Current load of the data path. Values that this data path does not report are absent. */
export interface DatapathLoad extends Partial<Pick<KernelDatapath, 'hits' | 'misses' | 'lost' | 'megaflows' | 'masks'>> {
  readonly connections: readonly ConnectionTable[];
  /**
   * IP fragments that Open vSwitch dropped because it did not complete their datagrams in time, since ovs-vswitchd started. The userspace
   * tracker does not complete datagrams of more than 32 fragments, and drops waiting ones later. Source: lib/ipf.c.
   */
  readonly lostFragments?: number;
}

/**
 * Commands of dpctl, ovs-appctl(8): "Prints the current number of connection entries", "the maximum"; and ovs-vswitchd's coverage counters.
 */
const userspaceNumbers = [
  { command: 'dpctl/ct-get-nconns' },
  { command: 'dpctl/ct-get-maxconns' },
  { command: 'coverage/read-counter', arguments: ['datapath_drop_upcall_error'] },
  { command: 'coverage/read-counter', arguments: ['datapath_drop_lock_error'] },
  { command: 'coverage/read-counter', arguments: ['ipf_stuck_frag_list_purged'] },
] as const satisfies readonly NumberCommand[];

/** @throws SeineError `UNAVAILABLE` if OVS does not answer; `CANCELLED` */
export async function readDatapathLoad(type: 'system' | 'netdev', ovsRunDir: string, signal: AbortSignal): Promise<DatapathLoad> {
  const kernel = kernelConnections();
  if (type === 'netdev') return await userspaceLoad(ovsRunDir, kernel, signal);
  const { name: _, ...counters } = kernelDatapath() ?? { name: '' };
  return { ...counters, connections: kernel };
}

async function userspaceLoad(ovsRunDir: string, kernel: readonly ConnectionTable[], signal: AbortSignal): Promise<DatapathLoad> {
  const [entries, limit, refused, busy, lostFragments] = await askDaemonNumbers(ovsRunDir, userspaceNumbers, signal);
  const lost = refused === undefined && busy === undefined ? {} : { lost: (refused ?? 0) + (busy ?? 0) };
  const table: ConnectionTable[] = entries === undefined || limit === undefined ? [] : [{ table: 'userspace', entries, limit }];
  return { ...lost, ...(lostFragments === undefined ? {} : { lostFragments }), connections: [...kernel, ...table] };
}

function kernelDatapath(): KernelDatapath | undefined {
  const socket = NetlinkSocket.open({ protocol: 'generic' });
  try {
    return listKernelDatapaths(socket).find(({ name }) => name === 'ovs-system');
  } finally {
    socket.close();
  }
}

/** Connections of this process's network namespace; empty if nothing is tracked there. */
function kernelConnections(): readonly ConnectionTable[] {
  try {
    const read = (name: string) => Number(readSysctl(['net', 'netfilter', name]));
    return [{ table: 'kernel', entries: read('nf_conntrack_count'), limit: read('nf_conntrack_max') }];
  } catch (thrown) {
    const error = SeineError.from(thrown, 'count tracked connections');
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}
