import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { cidrContains } from '../../base/net/ip.ts';
import { standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import { type Link, listLinks } from '../../netlink/links.ts';
import { NetworkNamespace, namedNamespaces } from '../../netlink/namespace.ts';
import { namespaceIdOf } from '../../netlink/namespace-id.ts';
import type { PortsNamespace } from '../../netlink/pod-interfaces/ports-namespace.ts';
import { interfacesOver } from '../../netlink/pod-interfaces/pre-plugged-port.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { PodAddress } from '../ipam/attachment.ts';
import type { Pool } from '../ipam/lease.ts';
import { hostInterfaceName, parseHostInterfaceAlias } from '../network/attachment-names.ts';

/** Maximum number of namespaces that are read; larger than the number of pods on any node. */
const NAMESPACES_MAX = 10_000;

/** Interface inside a namespace, with its addresses. */
interface InnerEnd {
  readonly path: string;
  readonly link: Link;
  readonly addresses: readonly Pick<PodAddress, 'ip' | 'prefixLength'>[];
}

/**
 * Pods known to the kernel only: the alias of the host interface names the pod, the other end has the addresses. Searches named namespaces
 * only, where containerd and CRI-O create them.
 */
export class KernelInventory {
  /** Interfaces by the node's id of their namespace and their index there. */
  readonly #ends: ReadonlyMap<string, InnerEnd>;

  private constructor(ends: ReadonlyMap<string, InnerEnd>) {
    this.#ends = ends;
  }

  /**
   * Reads every named namespace, which takes about a millisecond each.
   *
   * @param host socket of the node
   * @param ports namespace of far ends
   */
  static async look(host: NetlinkSocket, ports: PortsNamespace | undefined): Promise<KernelInventory> {
    const ends = new Map<string, InnerEnd>();
    for (const name of namespaceNames()) {
      for (const [key, end] of endsIn(join(namedNamespaces, name), host, ports)) ends.set(key, end);
      await nextTurn();
    }
    return new KernelInventory(ends);
  }

  /**
   * Makes the lease of the pod with this interface; a pre-plugged port has the alias of its far end.
   *
   * @returns undefined if the alias is not ours, or if the pod's addresses are not from `pools`
   */
  leaseOf(host: Link, pools: readonly Pool[]): Omit<AttachedLease, 'serial' | 'state'> | undefined {
    const said = parseHostInterfaceAlias(host.alias);
    const isStanding = standingPortPattern.test(host.name);
    const end = this.#ends.get(keyOf(isStanding ? 'far' : host.peerNamespaceId, host.peerIndex));
    if (!said || !end || !host.mac || !end.link.mac) return undefined;
    const key = { network: said.network, containerId: said.containerId, ifName: end.link.name };
    // The name contains a hash of network, container and interface; an alias alone is not proof.
    if (!isStanding && hostInterfaceName(key, said.pod) !== host.name) return undefined;
    const addresses = end.addresses.flatMap(({ ip, prefixLength }) => {
      const pool = pools.find(({ cidr }) => cidrContains(cidr, ip));
      return pool ? [{ ip, prefixLength, gateway: pool.gateway }] : [];
    });
    if (addresses.length === 0) return undefined;
    const attached = { hostIfName: host.name, hostMac: host.mac, mtu: host.mtu };
    return { ...key, netns: end.path, mac: end.link.mac, addresses, ...(said.pod ? { pod: said.pod } : {}), attached };
  }
}

/** Key of an interface. @param namespaceId `far` if the index is that of a far end */
function keyOf(namespaceId: number | 'far' | undefined, index: number | undefined): string {
  return `${namespaceId} ${index}`;
}

/**
 * Returns the interfaces in a namespace. A path that disappears or is not a namespace has no pod; neither has a namespace without a link to
 * the node.
 */
function endsIn(path: string, host: NetlinkSocket, ports: PortsNamespace | undefined): readonly (readonly [string, InnerEnd])[] {
  let namespace: NetworkNamespace;
  try {
    namespace = NetworkNamespace.open(path);
  } catch {
    return [];
  }
  let socket: NetlinkSocket | undefined;
  try {
    const id = namespaceIdOf(host, namespace);
    const inside = (socket = NetlinkSocket.open({ namespace }));
    const endOf = (link: Link): InnerEnd => {
      const own = listAddresses(inside, { link: link.index }).filter(({ scope }) => scope === 'global');
      return { path, link, addresses: own.map(({ address: ip, prefixLength }) => ({ ip, prefixLength })) };
    };
    const ofPairs =
      id === undefined ? [] : listLinks(inside, { kind: 'veth' }).map((link) => [keyOf(id, link.index), endOf(link)] as const);
    const overPorts = ports === undefined ? [] : interfacesOver(inside, ports);
    return [...ofPairs, ...overPorts.map((link) => [keyOf('far', link.lowerIndex), endOf(link)] as const)];
  } finally {
    socket?.close();
    namespace.close();
  }
}

function namespaceNames(): readonly string[] {
  try {
    return readdirSync(namedNamespaces).slice(0, NAMESPACES_MAX);
  } catch {
    return []; // no namespace has been made yet
  }
}
