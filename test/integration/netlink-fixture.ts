import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { parseIp } from '../../src/base/net/ip.ts';
import { changeLink, createVeth, getLink, type Link } from '../../src/netlink/links.ts';
import { Batch } from '../../src/netlink/message.ts';
import { createNamedNamespace, deleteNamedNamespace, type NetworkNamespace } from '../../src/netlink/namespace.ts';
import { replaceAddress } from '../../src/netlink/routing/addresses.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';

/** A namespace of this test. */
export interface Lab {
  readonly name: string;
  readonly path: string;
  readonly namespace: NetworkNamespace;
}

/** Names that no other run has. At most 11 letters, so that an interface name can be derived. */
export function randomName(prefix: string): string {
  return `${prefix}${randomBytes(4).toString('hex')}`;
}

/** Runs with fresh namespaces and deletes them afterwards, in any case. */
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

/** The state of a namespace as iproute2 shows it: the oracle. */
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

/** Error of an action. @throws Error if it succeeds */
export function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

/** Two namespaces joined by a veth, 10.0.0.1 and fd00::1 at one end, .2 at the other. */
export async function withWire<T>(work: (one: Lab & { link: Link }, two: Lab & { link: Link }) => Promise<T>): Promise<T> {
  return withNamespaces(2, async (one, two) => {
    const sockets = [one, two].map(({ namespace }) => NetlinkSocket.open({ namespace }));
    const [first, second] = sockets;
    if (!first || !second) throw new Error('two sockets');
    const made = new Batch();
    createVeth(made, { name: 'eth0', peer: { name: 'eth0', namespace: two.namespace } });
    first.transact(made);
    const ends = [first, second].map((socket, index) => {
      const link = getLink(socket, 'eth0');
      if (!link) throw new Error('no eth0');
      const batch = new Batch();
      changeLink(batch, 'lo', { state: 'up' });
      changeLink(batch, link.index, { state: 'up' });
      replaceAddress(batch, { link: link.index, address: parseIp(`10.0.0.${index + 1}`), prefixLength: 24 });
      replaceAddress(batch, { link: link.index, address: parseIp(`fd00::${index + 1}`), prefixLength: 64 });
      socket.transact(batch);
      return link;
    });
    for (const socket of sockets) socket.close();
    const [a, b] = ends;
    if (!a || !b) throw new Error('two ends');
    return await work({ ...one, link: a }, { ...two, link: b });
  });
}
