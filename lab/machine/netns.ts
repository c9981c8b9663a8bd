import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type NetnsRef, netnsFolder, netnsPath, netnsPrefix } from '../plan/names.ts';
import { type RunOptions, run } from './process.ts';

/** Reports whether a namespace is bound at this name. A leftover empty file is not. */
export function netnsExists(name: string): boolean {
  const path = netnsPath(name);
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .some((line) => line.split(' ')[4] === path);
}

/** Makes a named network namespace with its loopback up. */
export async function createNetns(name: string, signal: AbortSignal): Promise<void> {
  await run('ip', ['netns', 'add', name], {}, signal);
  await ipBatch(name, ['link set lo up'], signal);
}

/** Succeeds if there is none of that name; removes a leftover empty file too. */
export async function deleteNetns(name: string, signal: AbortSignal): Promise<void> {
  if (existsSync(netnsPath(name))) await run('ip', ['netns', 'delete', name], {}, signal);
}

/** Names of all namespaces of a lab, in order, also of one whose daemon is gone. */
export function netnsOfLab(labId: string): string[] {
  try {
    return readdirSync(netnsFolder)
      .filter((name) => name.startsWith(netnsPrefix(labId)))
      .toSorted();
  } catch {
    // The first namespace of the host creates the folder.
    return [];
  }
}

/** Runs `ip` commands, one a line, in a namespace; stops at the first that fails. */
export async function ipBatch(netns: string, lines: readonly string[], signal: AbortSignal): Promise<void> {
  await run('ip', ['-n', netns, '-batch', '-'], { input: `${lines.join('\n')}\n` }, signal);
}

/**
 * Command and arguments that run something in a namespace. Not `ip netns exec`: that mounts another /sys, and so hides the host's control
 * groups from its children.
 */
export function inNetns(netns: NetnsRef, command: string, args: readonly string[]): { command: string; args: string[] } {
  if (netns === 'here') return { command, args: [...args] };
  return { command: 'nsenter', args: [`--net=${netnsPath(netns)}`, '--', command, ...args] };
}

export async function runIn(
  netns: string,
  command: string,
  args: readonly string[],
  options: RunOptions,
  signal: AbortSignal,
): Promise<string> {
  const inside = inNetns(netns, command, args);
  return run(inside.command, inside.args, options, signal);
}
