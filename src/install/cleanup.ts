import { existsSync, readdirSync, readlinkSync, rmdirSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { SeineError } from '../base/errors/seine-error.ts';
import { removeFile } from '../base/files/atomic-file.ts';
import { privateFolder } from '../base/files/private-folder.ts';
import { removeMountPoint } from '../netlink/namespace.ts';
import { portsPathNextTo } from '../netlink/pod-interfaces/ports-namespace.ts';
import { descriptorOf, peerCredentials } from '../netlink/sockets/unix-peer.ts';
import { kernelLeftovers } from './cleanup-kernel.ts';
import { switchLeftovers } from './cleanup-switch.ts';
import { installedFiles } from './install.ts';
import type { Folders } from './install-paths.ts';
import type { Leftover } from './leftover.ts';

export interface CleanupOptions {
  readonly folders: Folders;
  /** Sockets of the agent. */
  readonly sockets: readonly string[];
  readonly ovsRunFolder: string;
  readonly bridge: string;
  readonly gateway: string;
}

export interface Leftovers {
  /** Items in the order of removal: first those that would attach new pods, last the records of the old ones. */
  readonly items: readonly Leftover[];
  /** Reasons why nothing should be removed now. */
  readonly obstacles: readonly string[];
}

/**
 * Lists everything that Seine has created on this node; changes nothing.
 *
 * @throws SeineError `REFUSED` if the kernel does not answer, or if the agent runs in another network namespace
 */
export async function findLeftovers(options: CleanupOptions, signal: AbortSignal): Promise<Leftovers> {
  const { folders, sockets, gateway, bridge } = options;
  const running = await answeringSockets(sockets);
  const files = installedFiles(folders).map((path) => ({ what: `file ${path}`, remove: () => void removeFile(path) }));
  const portsPath = portsPathNextTo(sockets[0] ?? '');
  const kernel = kernelLeftovers({ gateway, bridge, portsPath });
  const ofSwitch = await switchLeftovers(options, signal);
  const inSwitch = ofSwitch.pods.filter(({ link }) => kernel.names.has(link)).map(({ pod }) => pod);
  const attached = new Set([...kernel.pods, ...inSwitch]);
  const obstacles = [
    ...(running.length > 0
      ? [`an agent answers on ${running.join(' and ')}: it would restore everything; delete its DaemonSet first`]
      : []),
    ...(attached.size > 0 ? [`attached pods lose their network (${attached.size}): ${named([...attached])}; drain the node first`] : []),
    ...ofSwitch.obstacles,
  ];
  const rest = [...portsNamespace(portsPath), ...socketFiles(sockets), ...stateFolder(folders.state)];
  return { items: [...files, ...kernel.first, ...ofSwitch.items, ...kernel.links, ...rest], obstacles };
}

const namedMax = 5;

function named(pods: readonly string[]): string {
  const shown = pods.toSorted().slice(0, namedMax).join(', ');
  return pods.length > namedMax ? `${shown} and others` : shown;
}

/** @throws SeineError `REFUSED` for an agent in another network namespace: routes and nftables tables here are not its own */
async function answeringSockets(paths: readonly string[]): Promise<string[]> {
  const answers = await Promise.all(paths.map(async (path) => ({ path, pid: await listenerOf(path) })));
  const elsewhere = answers.find(({ pid = 0 }) => pid > 0 && isElsewhere(pid));
  if (elsewhere)
    throw new SeineError(
      'REFUSED',
      `the agent of ${elsewhere.path} is in another network namespace than this command: nothing here is its own; run this command there: nsenter --net=/proc/${elsewhere.pid}/ns/net`,
    );
  return answers.flatMap(({ path, pid }) => (pid === undefined ? [] : [path]));
}

/** Returns the process that listens on a socket, or 0 for one outside this PID namespace; undefined if none does. */
function listenerOf(path: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      resolve(processOf(probe));
      probe.destroy();
    });
    probe.once('error', () => resolve(undefined));
  });
}

function processOf(socket: Socket): number {
  try {
    return peerCredentials(descriptorOf(socket)).pid;
  } catch {
    return 0; // it has already closed the connection
  }
}

function isElsewhere(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync('/proc/self/ns/net');
  } catch {
    return false; // it has ended meanwhile, or is in another PID namespace
  }
}

/** If a container has only a copy of the mount, deleting the file also unmounts the original (mount_namespaces(7)). */
function portsNamespace(path: string): Leftover[] {
  const folder = dirname(path);
  if (!existsSync(folder)) return [];
  const remove = (): void => {
    removeMountPoint(path);
    rmdirSync(folder);
  };
  return [{ what: `namespace of pre-plugged ports at ${path}`, remove }];
}

function socketFiles(paths: readonly string[]): Leftover[] {
  const present = paths.filter((path) => existsSync(path));
  return present.map((path) => ({ what: `socket ${path}`, remove: () => void removeFile(path) }));
}

/** The folder itself may be a mount of a container, which cannot be removed. */
function stateFolder(path: string): Leftover[] {
  if (!existsSync(path) || readdirSync(path).length === 0) return [];
  const remove = (): void => {
    // Refuses system folders and those of other programs.
    privateFolder(path);
    for (const name of readdirSync(path)) rmSync(join(path, name), { recursive: true, force: true });
  };
  return [{ what: `everything in ${path}: journal of addresses, last known peers and Services`, remove }];
}
