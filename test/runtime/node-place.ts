import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, openSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { labMark, processOf, run } from '../../lab/machine/process.ts';
import { netnsPath } from '../../lab/plan/names.ts';

/** Folders of runtimes whose paths cannot be configured: each node writes to its own overlay over the host's. */
const layered = ['etc', 'opt', 'var/lib'];
/** Runtime state: each node has its own folder in its place. */
const replaced = ['run/containerd', 'run/runc', 'run/libpod'];

/**
 * Ends in a process that keeps the mounts. Everything of the host is visible; mounts made here stay here, except below /run/netns:
 * namespaces bound there by a runtime must be visible to the agent, as on a real node. $1 is the node's folder, then follow the overlay
 * folders, `--`, the replaced ones.
 */
const script = `set -e
folder=$1; shift
findmnt -rno TARGET | grep -v '^/run/netns' | while read -r at; do mount --make-private "$at" 2>/dev/null || true; done
while [ "$1" != -- ]; do
  mount -t overlay overlay -o "lowerdir=/$1,upperdir=$folder/layer/$1,workdir=$folder/scratch/$1" "/$1"; shift
done
shift
for each in "$@"; do mount --bind "$folder/$each" "/$each"; done
echo ready
exec sleep infinity`;

/**
 * A node as its container runtime sees it: the network namespace of a lab's node, and its own mounts, so that runtimes of several nodes do
 * not collide on one host. Processes here have the lab's mark, so that `down` finds them too.
 */
export class NodePlace {
  /** Folder for files of this node, deleted by `close`. */
  readonly folder: string;
  readonly #holder: ChildProcess;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(folder: string, holder: ChildProcess, env: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.#holder = holder;
    this.#env = env;
  }

  /** @param folder absolute and short, as sockets are in it; created if absent */
  static async open(node: { netns: string; labId: string }, folder: string): Promise<NodePlace> {
    for (const path of layered) for (const part of ['layer', 'scratch']) mkdirSync(join(folder, part, path), { recursive: true });
    for (const path of replaced) for (const base of ['/', folder]) mkdirSync(join(base, path), { recursive: true });
    const env = { [labMark]: node.labId };
    const within = ['--propagation', 'unchanged', 'nsenter', `--net=${netnsPath(node.netns)}`, '--'];
    const args = ['--mount', ...within, 'sh', '-c', script, 'sh', folder, ...layered, '--', ...replaced];
    const holder = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } });
    const [line] = await Promise.race([once(createInterface(holder.stdout), 'line'), once(holder, 'exit')]);
    if (line !== 'ready') throw new Error(`the mounts of ${folder} cannot be made: exit code ${line}`);
    return new NodePlace(folder, holder, env);
  }

  /** Path of a node's file as seen from this process; `inside` is absolute. */
  path(inside: string): string {
    return join('/proc', String(this.#pid), 'root', inside);
  }

  /** Runs a command on the node to its end. @throws SeineError `REFUSED` with its output, if its exit code is not 0 */
  async run(command: string, args: readonly string[], signal: AbortSignal, env: Readonly<Record<string, string>> = {}): Promise<string> {
    return await run('nsenter', [...this.#enter(), command, ...args], { env: { ...this.#env, ...env } }, signal);
  }

  /** Starts a daemon on the node. @param log the file it writes to */
  start(command: string, args: readonly string[], log: string): ChildProcess {
    const file = openSync(log, 'a');
    return spawn('nsenter', [...this.#enter(), command, ...args], {
      stdio: ['ignore', file, file],
      env: { ...process.env, ...this.#env },
      detached: true,
    });
  }

  /** Resolves when nothing of the node's mounts is left, unless a running process keeps them. */
  async close(): Promise<void> {
    if (this.#holder.exitCode === null && this.#holder.kill('SIGKILL')) await once(this.#holder, 'exit');
    rmSync(this.folder, { recursive: true, force: true });
    for (const path of replaced) removeIfEmpty(join('/', path));
  }

  #enter(): string[] {
    return ['--target', String(this.#pid), '--mount', '--net', '--'];
  }

  get #pid(): number {
    const { pid } = this.#holder;
    if (pid === undefined || processOf(pid) === undefined) throw new Error(`${this.folder} is closed`);
    return pid;
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // The host's own, or another run's.
  }
}

/** The last lines of a log, for the message of a failure. */
export function endOf(log: string): string {
  return readFileSync(log, 'utf8').trim().split('\n').slice(-15).join('\n');
}
