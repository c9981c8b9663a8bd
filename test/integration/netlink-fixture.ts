import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { createNamedNamespace, deleteNamedNamespace, type NetworkNamespace } from '../../src/netlink/namespace.ts';

/** A namespace of this test's own. */
export interface Lab {
  readonly name: string;
  readonly path: string;
  readonly namespace: NetworkNamespace;
}

/** Names that no other run has. At most 11 letters, so that an interface name can be made of one. */
export function randomName(prefix: string): string {
  return `${prefix}${randomBytes(4).toString('hex')}`;
}

/** Runs with fresh namespaces and takes them down after it, whatever happens. */
export async function withNamespaces<T>(count: number, work: (...labs: Lab[]) => T | Promise<T>): Promise<T> {
  const labs: Lab[] = [];
  try {
    for (let index = 0; index < count; index++) {
      const name = randomName('nlt');
      labs.push({ name, path: `/run/netns/${name}`, namespace: createNamedNamespace(name) });
    }
    return await work(...labs);
  } finally {
    for (const { name, namespace } of labs) {
      namespace.close();
      deleteNamedNamespace(name);
    }
  }
}

/** What iproute2 says about a namespace: our judge. */
export function ip(lab: Lab | 'here', ...words: readonly string[]): Record<string, unknown>[] {
  const where = lab === 'here' ? [] : ['-n', lab.name];
  const output = execFileSync('ip', [...where, '-details', '-json', ...words], { encoding: 'utf8' });
  return output.trim() === '' ? [] : JSON.parse(output);
}

/** Runs a command inside a namespace. */
export function inside(lab: Lab, command: string, ...words: readonly string[]): string {
  return execFileSync('ip', ['netns', 'exec', lab.name, command, ...words], { encoding: 'utf8' });
}

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** What an action throws. @throws Error if that is nothing */
export function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
