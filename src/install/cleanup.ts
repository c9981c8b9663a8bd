import { existsSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';
import { privateFolder } from '../files/private-folder.ts';
import { descriptorOf, peerCredentials } from '../netlink/unix-peer.ts';
import { kernelLeftovers } from './cleanup-kernel.ts';
import { switchLeftovers } from './cleanup-switch.ts';
import { installedFiles } from './install.ts';
import type { Folders } from './places.ts';
import { removeFile } from './whole-file.ts';

export interface CleanupOptions {
  readonly folders: Folders;
  /** The agent's. */
  readonly sockets: readonly string[];
  readonly ovsRunFolder: string;
  readonly bridge: string;
  readonly gateway: string;
}

/** Something of Seine's on this node, and how it is taken away. */
export interface Leftover {
  readonly what: string;
  readonly remove: (signal: AbortSignal) => Promise<void> | void;
}

export interface Leftovers {
  /** In the order of removing: first what would bring new pods, last what remembers the old ones. */
  readonly items: readonly Leftover[];
  /** Why nothing should be removed now. */
  readonly obstacles: readonly string[];
}

/**
 * Looks for all that Seine has made on this node; changes nothing.
 *
 * @throws SeineError `REFUSED` if the kernel does not say, or if what would be found here is not what the agent has made
 */
export async function findLeftovers(options: CleanupOptions, signal: AbortSignal): Promise<Leftovers> {
  const { folders, sockets, gateway, bridge } = options;
  const running = await answeringSockets(sockets);
  const files = installedFiles(folders).map((path) => ({ what: `file ${path}`, remove: () => void removeFile(path) }));
  const kernel = kernelLeftovers({ gateway, bridge });
  const ofSwitch = await switchLeftovers(options, signal);
  const inSwitch = ofSwitch.pods.filter(({ link }) => kernel.names.has(link)).map(({ pod }) => pod);
  const attached = new Set([...kernel.pods, ...inSwitch]);
  const obstacles = [
    ...(running.length > 0
      ? [`an agent answers on ${running.join(' and ')}: it would put everything back; delete its DaemonSet first`]
      : []),
    ...(attached.size > 0 ? [`attached pods lose their network (${attached.size}): ${named([...attached])}; drain the node first`] : []),
    ...ofSwitch.obstacles,
  ];
  const rest = [...socketFiles(sockets), ...stateFolder(folders.state)];
  return { items: [...files, ...kernel.first, ...ofSwitch.items, ...kernel.links, ...rest], obstacles };
}

const namedMax = 5;

function named(pods: readonly string[]): string {
  const shown = pods.toSorted().slice(0, namedMax).join(', ');
  return pods.length > namedMax ? `${shown} and others` : shown;
}

/** @throws SeineError `REFUSED` for an agent in another network namespace: routes and packet filter of this one are not its */
async function answeringSockets(paths: readonly string[]): Promise<string[]> {
  const answers = await Promise.all(paths.map(async (path) => ({ path, pid: await listenerOf(path) })));
  const elsewhere = answers.find(({ pid = 0 }) => pid > 0 && isElsewhere(pid));
  if (elsewhere)
    throw new SeineError(
      'REFUSED',
      `the agent of ${elsewhere.path} is in another network namespace than this command: what is found here is not its; look there, with nsenter --net=/proc/${elsewhere.pid}/ns/net`,
    );
  return answers.flatMap(({ path, pid }) => (pid === undefined ? [] : [path]));
}

/** Who answers on a socket: its process, or 0 for one that this namespace of processes does not show; undefined if nobody does. */
function listenerOf(path: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      resolve(processBehind(probe));
      probe.destroy();
    });
    probe.once('error', () => resolve(undefined));
  });
}

function processBehind(socket: Socket): number {
  try {
    return peerCredentials(descriptorOf(socket)).pid;
  } catch {
    return 0; // it has hung up already
  }
}

function isElsewhere(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync('/proc/self/ns/net');
  } catch {
    return false; // it has ended meanwhile, or is not shown
  }
}

function socketFiles(paths: readonly string[]): Leftover[] {
  const present = paths.filter((path) => existsSync(path));
  return present.map((path) => ({ what: `socket ${path}`, remove: () => void removeFile(path) }));
}

/** The folder itself may be a mount of a container, which cannot be removed. */
function stateFolder(path: string): Leftover[] {
  if (!existsSync(path) || readdirSync(path).length === 0) return [];
  const remove = (): void => {
    // Refuses folders of the machine's and of others.
    privateFolder(path);
    for (const name of readdirSync(path)) rmSync(join(path, name), { recursive: true, force: true });
  };
  return [{ what: `everything in ${path}: journal of addresses, last known peers and Services`, remove }];
}
