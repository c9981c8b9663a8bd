import { execFileSync } from 'node:child_process';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { randomName } from '../integration/netlink-fixture.ts';

/** Network namespace with an underlay interface and the free name of a WireGuard device. */
export interface UnderlayNamespace {
  readonly namespace: string;
  readonly device: string;
  readonly underlay: { readonly ipv4: string; readonly ipv6: string };
}

/** Creates two namespaces joined by a veth. The caller removes them. */
export function joinedNamespaces(): readonly [UnderlayNamespace, UnderlayNamespace] {
  const pair = [underlayNamespace(1), underlayNamespace(2)] as const;
  for (const { namespace } of pair) createNamedNamespace(namespace).close();
  const [{ namespace: first }, { namespace: second }] = pair;
  ip('-n', first, 'link', 'add', 'under', 'type', 'veth', 'peer', 'name', 'under', 'netns', second);
  for (const { namespace, underlay } of pair) {
    ip('-n', namespace, 'address', 'add', `${underlay.ipv4}/24`, 'dev', 'under');
    ip('-n', namespace, 'address', 'add', `${underlay.ipv6}/64`, 'dev', 'under', 'nodad');
    ip('-n', namespace, 'link', 'set', 'under', 'up');
  }
  return pair;
}

export function removeNamespaces(pair: readonly UnderlayNamespace[]): void {
  for (const { namespace } of pair) deleteNamedNamespace(namespace);
}

function ip(...words: readonly string[]): void {
  execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function underlayNamespace(host: number): UnderlayNamespace {
  const underlay = { ipv4: `198.51.100.${host}`, ipv6: `fd00:51::${host}` };
  return { namespace: randomName('wgn'), device: randomName('wg'), underlay };
}
