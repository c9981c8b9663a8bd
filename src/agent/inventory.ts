import type { SwitchDatabase } from '../datapath/switch-database.ts';
import type { Log } from '../log/log.ts';
import { type Link, listLinks } from '../netlink/links.ts';
import type { HostLinks } from '../netlink/pod-interface.ts';
import { hostInterfacePattern } from './attachment-names.ts';
import type { Ipam } from './ipam/ipam.ts';
import type { Lease } from './ipam/lease.ts';
import type { NodePodNetwork } from './pod-network.ts';
import type { AttachedPod } from './pod-network-port.ts';

export interface InventorySources {
  readonly ipam: Ipam;
  readonly database: SwitchDatabase;
  readonly host: HostLinks;
  readonly network: NodePodNetwork;
  readonly log: Log;
}

/**
 * Finds the pods of this node again after a restart of the agent: the IPAM journal says which there are, the switch's database
 * which ports they had, the kernel which interfaces are there.
 *
 * - A lease with `attached` whose interface is there is a pod: taken over as it is.
 * - A lease with `attached` without interface: the pod is gone, by a reboot or by its own hand; its addresses are given up.
 * - A lease without `attached` is an ADD that was cut short: the runtime will ask again, so nothing of it is kept.
 * - An interface of ours without lease is what is left of a DEL or an ADD that was cut short: removed.
 *
 * Ports and flows that nobody wants now go by themselves once removals are allowed.
 */
export function takeInventory(sources: InventorySources): {
  readonly adopted: number;
  readonly released: number;
  readonly removedLinks: number;
} {
  const { ipam, host, network, log } = sources;
  const links = new Map(listLinks(host.socket, { kind: 'veth' }).map((link) => [link.name, link]));
  const kept = new Set<string>();
  let released = 0;
  for (const lease of ipam.leases()) {
    if (lease.state !== 'allocated') continue;
    if (isPod(lease, links)) {
      adopt(sources, lease);
      kept.add(lease.attached.hostIfName);
    } else {
      released++;
      ipam.release(lease);
      log.info('the addresses of a pod that is gone are given up', {
        container: lease.containerId,
        pod: lease.pod?.name,
        attached: lease.attached !== undefined,
      });
    }
  }
  const leftOver = [...links.values()].filter((link) => isOurs(link) && !kept.has(link.name));
  for (const { name } of leftOver) {
    log.info('an interface that no pod has is removed', { interface: name });
    network.removeLeftOver(name);
  }
  return { adopted: kept.size, released, removedLinks: leftOver.length };
}

function isPod(lease: Lease, links: ReadonlyMap<string, Link>): lease is Lease & { readonly attached: AttachedPod } {
  return lease.attached !== undefined && links.has(lease.attached.hostIfName);
}

function adopt({ database, network }: InventorySources, lease: Lease & { readonly attached: AttachedPod }): void {
  const row = database.tables.Interface.find('name', lease.attached.hostIfName);
  network.adopt(lease, row?.ofport_request);
}

function isOurs({ name, alias }: Link): boolean {
  return hostInterfacePattern.test(name) && alias?.includes('/') === true;
}
