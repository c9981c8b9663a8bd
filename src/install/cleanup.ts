import { existsSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { privateFolder } from '../files/private-folder.ts';
import { kernelLeftovers } from './cleanup-kernel.ts';
import { switchLeftovers } from './cleanup-switch.ts';
import { installedFiles } from './install.ts';
import type { Folders } from './places.ts';
import { removeFile } from './whole-file.ts';

export interface CleanupOptions {
  readonly folders: Folders;
  /** With the agent's sockets. */
  readonly runFolder: string;
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

const sockets = ['cni.sock', 'agent.sock'] as const;

/** Looks for all that Seine has made on this node; changes nothing. @throws SeineError `REFUSED` if the kernel does not say */
export async function findLeftovers(options: CleanupOptions, signal: AbortSignal): Promise<Leftovers> {
  const { folders, runFolder, gateway, bridge } = options;
  const files = installedFiles(folders).map((path) => ({ what: `file ${path}`, remove: () => void removeFile(path) }));
  const kernel = kernelLeftovers({ gateway, bridge });
  const ofSwitch = await switchLeftovers(options, signal);
  const running = await answeringSockets(runFolder);
  const inSwitch = ofSwitch.pods.filter(({ link }) => kernel.names.has(link)).map(({ pod }) => pod);
  const attached = new Set([...kernel.pods, ...inSwitch]);
  const obstacles = [
    ...(running.length > 0
      ? [`an agent answers on ${running.join(' and ')}: it would put everything back; delete its DaemonSet first`]
      : []),
    ...(attached.size > 0 ? [`attached pods lose their network (${attached.size}): ${named([...attached])}; drain the node first`] : []),
    ...ofSwitch.obstacles,
  ];
  const rest = [...socketFiles(runFolder), ...stateFolder(folders.state)];
  return { items: [...files, ...kernel.first, ...ofSwitch.items, ...kernel.links, ...rest], obstacles };
}

const namedMax = 5;

function named(pods: readonly string[]): string {
  const shown = pods.toSorted().slice(0, namedMax).join(', ');
  return pods.length > namedMax ? `${shown} and others` : shown;
}

async function answeringSockets(folder: string): Promise<string[]> {
  const answers = await Promise.all(sockets.map(async (name) => ((await isAnswered(join(folder, name))) ? [join(folder, name)] : [])));
  return answers.flat();
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
}

function socketFiles(folder: string): Leftover[] {
  const paths = sockets.map((name) => join(folder, name)).filter((path) => existsSync(path));
  return paths.map((path) => ({ what: `socket ${path}`, remove: () => void removeFile(path) }));
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
