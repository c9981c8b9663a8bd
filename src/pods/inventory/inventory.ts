import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { farNameOf, standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import { type Link, listLinks } from '../../netlink/links.ts';
import { NetworkNamespace } from '../../netlink/namespace.ts';
import type { HostLinks } from '../../netlink/pod-interfaces/pod-interface.ts';
import type { PortsMount } from '../../netlink/pod-interfaces/ports-namespace.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { AttachmentKey } from '../ipam/attachment.ts';
import type { Ipam } from '../ipam/ipam.ts';
import { attachmentId, type Lease, type Pool } from '../ipam/lease.ts';
import { hostInterfaceAlias, hostInterfaceName, isPodInterface } from '../network/attachment-names.ts';
import type { NodePodNetwork } from '../network/pod-network.ts';
import type { StandingPorts } from '../network/pre-plugged-ports.ts';
import { KernelInventory } from './inventory-kernel.ts';
import { leaseFromPort } from './ovs-port-record.ts';

interface InventorySources {
  readonly ipam: Pick<Ipam, 'leases' | 'adopt' | 'release' | 'rebooted'>;
  readonly pools: readonly Pool[];
  readonly database: SwitchDatabase;
  readonly host: Pick<HostLinks, 'socket'>;
  /** Namespace of the far ends of pre-plugged ports. */
  readonly farEnds: Pick<PortsMount, 'current'>;
  readonly standing: Pick<StandingPorts, 'adoptIdle' | 'isKnown'>;
  readonly network: Pick<NodePodNetwork, 'adopt'>;
  readonly log: Log;
}

interface Inventory {
  readonly adopted: number;
  /** Number of adopted pods that the journal did not have. */
  readonly recovered: number;
  readonly released: number;
  /** Number of interfaces without a pod; they are removed once removals are allowed. */
  readonly removedLinks: number;
}

/** Host interfaces of pods. A pre-plugged port of a pod has the alias and promiscuity of its far end, which belong to the pod. */
type Links = ReadonlyMap<string, Link>;

/**
 * Finds the pods of this node after a restart of the agent, from the IPAM journal (pods), OVSDB (their ports) and the kernel (their
 * interfaces). The journal takes precedence. If it has no record of an attachment at all, neither of a lease nor of its release, the record
 * was lost, and OVSDB counts.
 *
 * - A lease with `attached` whose interface exists is a pod; it is adopted unchanged.
 * - A lease with `attached` without an interface: the pod is gone, because the host rebooted or the pod ended, and its addresses are
 * released. But if its namespace still exists, the interface of a running pod was deleted.
 * - A lease without `attached` is an interrupted ADD: the runtime will repeat it, so nothing of it is kept.
 * - A port of ours whose interface exists and that the journal does not know is a pod; its lease is written again.
 * - An interface of ours that neither knows, and whose other end the kernel finds in a namespace, is a pod; its lease is written again too.
 * - Any other interface of ours is left from an interrupted DEL or ADD.
 *
 * Interfaces, ports and flows without an owner are removed once removals are allowed, and the interface of a pod that has none is
 * recreated.
 */
export async function takeInventory(sources: InventorySources): Promise<Inventory> {
  const { ipam, standing, log } = sources;
  const { links, idle } = readLinks(sources);
  const recovered = (await recoverLeases(sources, links)) + (await recoverFromKernel(sources, links));
  const leases = ipam.leases().filter(({ state }) => state === 'allocated');
  const seen = { links, rebooted: ipam.rebooted };
  const pods = leases.filter((lease) => isPod(lease, seen));
  adopt(sources, pods);
  standing.adoptIdle(idle.filter((name) => !standing.isKnown(name)));
  const gone = leases.filter((lease) => !isPod(lease, seen));
  for (const lease of gone) {
    ipam.release(lease);
    log.info('released the addresses of a pod that no longer exists', {
      container: lease.containerId,
      pod: lease.pod?.name,
      attached: lease.attached !== undefined,
    });
  }
  const kept = new Set(pods.map(({ attached }) => attached.hostIfName));
  const orphans = [...links.values()].filter((link) => isPodInterface(link) && !kept.has(link.name));
  for (const { name } of orphans) log.info('removing an interface that belongs to no pod', { interface: name });
  return { adopted: pods.length, recovered, released: gone.length, removedLinks: orphans.length };
}

/**
 * Reads the interfaces. Pre-plugged ports without a pod are listed separately. If their far ends cannot be read, nothing more is known of
 * them.
 */
function readLinks({ host, farEnds: { current } }: InventorySources): { readonly links: Links; readonly idle: readonly string[] } {
  const fars = new Map(current && listLinks(current.socket, { kind: 'veth' }).map((far) => [far.name, far]));
  const links = new Map<string, Link>();
  const idle: string[] = [];
  for (const link of listLinks(host.socket, { kind: 'veth' })) {
    const far = standingPortPattern.test(link.name) ? fars.get(farNameOf(link.name)) : undefined;
    const isPair = far?.index === link.peerIndex && far?.peerIndex === link.index;
    if (!isPair || far === undefined) links.set(link.name, link);
    else if (far.alias === undefined) idle.push(link.name);
    else links.set(link.name, { ...link, alias: far.alias, promiscuity: far.promiscuity });
  }
  return { links, idle };
}

/**
 * Reports whether an interface still belongs to a lease: a pre-plugged port may belong to another pod by now. An alias without a slash is
 * not ours and does not count.
 */
function isItsOwn(lease: AttachmentKey & Pick<Lease, 'pod'>, { name, alias }: Link): boolean {
  return !standingPortPattern.test(name) || alias?.includes('/') !== true || alias === hostInterfaceAlias(lease, lease.pod);
}

/** Writes leases for pods that the journal has lost, from OVSDB. */
async function recoverLeases({ ipam, pools, database, log }: InventorySources, links: Links): Promise<number> {
  const known = new Set(ipam.leases().map(attachmentId));
  let count = 0;
  for (const port of database.tables.Port.rows()) {
    const link = links.get(port.name);
    if (!link) continue;
    try {
      const found = leaseFromPort(port.external_ids, link, pools);
      if (!found || known.has(attachmentId(found)) || !isItsOwn(found, link)) continue;
      await ipam.adopt(found);
      count++;
      log.warn('a pod that the IPAM journal has lost is recovered from its port', { port: port.name, container: found.containerId });
    } catch (thrown) {
      log.error('a pod that the IPAM journal may have lost cannot be recovered from its port', {
        port: port.name,
        cause: SeineError.from(thrown, 'adopt').message,
      });
    }
  }
  return count;
}

/** Writes leases for pods that journal and OVSDB have lost, from the kernel. */
async function recoverFromKernel({ ipam, pools, host, farEnds, log }: InventorySources, links: Links): Promise<number> {
  const known = new Set(ipam.leases().map((lease) => lease.attached?.hostIfName ?? hostInterfaceName(lease, lease.pod)));
  const unknown = [...links.values()].filter((link) => isPodInterface(link) && !known.has(link.name));
  if (unknown.length === 0) return 0;
  const kernel = await KernelInventory.look(host.socket, farEnds.current);
  let count = 0;
  for (const link of unknown) {
    const found = kernel.leaseOf(link, pools);
    if (!found) continue;
    try {
      await ipam.adopt(found);
      count++;
      log.warn('recovered an unknown pod from its interface', { interface: link.name, container: found.containerId });
    } catch (thrown) {
      const cause = SeineError.from(thrown, 'adopt').message;
      log.error('an unknown pod cannot be recovered from its interface', { interface: link.name, cause });
    }
  }
  return count;
}

function isPod(lease: Lease, { links, rebooted }: { readonly links: Links; readonly rebooted: boolean }): lease is AttachedLease {
  if (lease.attached === undefined) return false;
  const link = links.get(lease.attached.hostIfName);
  return link ? isItsOwn(lease, link) && !isForsaken(lease, link) : !rebooted && isRunning(lease);
}

/**
 * Reports whether the pod of a pre-plugged port is gone. The port stays when the pod's namespace, and with it the pod's interface, is gone.
 * A path under /proc is no evidence.
 */
function isForsaken({ netns }: Lease, { name, alias, promiscuity }: Link): boolean {
  return standingPortPattern.test(name) && alias !== undefined && promiscuity === 0 && !isOfProcess(netns) && !isNamespace(netns);
}

function isRunning({ netns, ipamType }: Lease): boolean {
  return ipamType === undefined && !isOfProcess(netns) && isNamespace(netns);
}

/** Reports whether a path is that of a process. Such a path is not reliable: it may belong to another process by now. */
function isOfProcess(netns: string): boolean {
  return netns.startsWith('/proc/');
}

function isNamespace(path: string): boolean {
  try {
    NetworkNamespace.open(path).close();
    return true;
  } catch {
    return false;
  }
}

/**
 * Adopts the pods. Those with a port number in their name come first, then those with a number in OVSDB, so that the numbers are not
 * allocated to other pods.
 */
function adopt({ database, network }: InventorySources, pods: readonly AttachedLease[]): void {
  let numbered = pods.map((pod) => ({ pod, ofPort: database.tables.Interface.find('name', pod.attached.hostIfName)?.ofport_request }));
  const isStanding = (pod: AttachedLease): boolean => standingPortPattern.test(pod.attached.hostIfName);
  for (const { pod, ofPort } of numbered) if (isStanding(pod)) network.adopt(pod, ofPort);
  numbered = numbered.filter(({ pod }) => !isStanding(pod));
  for (const { pod, ofPort } of numbered) if (ofPort !== undefined) network.adopt(pod, ofPort);
  for (const { pod, ofPort } of numbered) if (ofPort === undefined) network.adopt(pod, undefined);
}
