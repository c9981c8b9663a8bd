import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import { amended, errnoOf } from '../errno.ts';
import { type Offloads, readOffloads, setTransmitChecksum } from '../ethtool.ts';
import { type IfIndex, interfaceName } from '../interface-name.ts';
import type { LinkRemover } from '../link-remover.ts';
import { changeLink, createVeth, getLink, type Link } from '../links.ts';
import { Batch } from '../message.ts';
import { NetworkNamespace } from '../namespace.ts';
import { type Address, listAddresses } from '../routing/addresses.ts';
import { listNeighbours, type Neighbour } from '../routing/neighbours.ts';
import { listRoutes, localTable, type Route } from '../routing/routes.ts';
import { NetlinkSocket } from '../socket.ts';
import { ensureSysctl, writeSysctl } from '../sysctl.ts';
import { type PodRouting, type RouteTables, setUpRouting } from './pod-routing.ts';

/** Access to the node's links: a socket in its namespace, and a remover that deletes links in the background. */
export interface HostLinks {
  readonly socket: NetlinkSocket;
  readonly remover: LinkRemover;
}

export interface PodInterfaceSpec extends PodRouting {
  readonly netnsPath: string;
  /** Cookie of the expected namespace, if known: paths are reused. See `NetlinkSocket.namespaceCookie`. */
  readonly netnsCookie?: string | undefined;
  readonly hostName: string;
  readonly podName: string;
  /** MAC of the pod's end. */
  readonly mac: Mac;
  /** MTU of both ends. */
  readonly mtu: number;
  /** Alias of the host end: `namespace/pod`. */
  readonly alias: string;
  /**
   * `layer2Only`: no ARP and no IPv6 at the host end. Needed on the userspace data path, where the end stays an interface of the node's own
   * stack, which would answer the pod's requests for the node's addresses.
   */
  readonly hostEnd: 'layer2Only' | 'plain';
  /** `off` on the userspace data path, see `setTransmitChecksum`. */
  readonly checksumOffload: 'off' | 'keep';
}

export interface PodInterface {
  readonly hostIndex: IfIndex;
  readonly hostMac: Mac | undefined;
  readonly podIndex: IfIndex;
  readonly routeTables: RouteTables;
  readonly netnsCookie: string | undefined;
}

/** Callbacks between the steps; each is awaited. */
interface PodInterfaceSteps {
  /** The namespace is the expected one, and nothing is created yet. */
  readonly beforeCreation?: () => Promise<void>;
  /** The node's end is up and the pod's end is not yet: other work can start in parallel. */
  readonly hostEndReady?: () => Promise<void>;
}

/** Configuration that an ADD has set inside the pod, for CHECK. */
export interface PodInterfaceSetUp {
  readonly link: Link;
  readonly addresses: readonly Address[];
  /** Routes of every table but the kernel's own. */
  readonly routes: readonly Route[];
}

/** State inside the pod. */
interface PodInterfaceState extends PodInterfaceSetUp {
  readonly neighbours: readonly Neighbour[];
  readonly offloads: Offloads;
}

/**
 * Creates the pair of interfaces of a pod and sets up both ends, the node's first.
 *
 * It waits only for its steps, and to undo its work, if something fails.
 *
 * @throws SeineError `INVALID_INPUT` for a path that is not another network namespace, or an invalid name; `REFUSED` with `conflict`
 *   `hostName` or `podName` (errno `EEXIST`) if that name is in use, then nothing was changed; `REFUSED` for any other refusal of the
 *   kernel, with `errno`, and `rollback` if even the rollback failed
 */
export async function createPodInterface(
  host: HostLinks,
  spec: PodInterfaceSpec,
  signal: AbortSignal,
  { beforeCreation, hostEndReady }: PodInterfaceSteps = {},
): Promise<PodInterface> {
  throwIfAborted(spec, signal);
  interfaceName(spec.hostName);
  interfaceName(spec.podName);
  const namespace = NetworkNamespace.open(spec.netnsPath);
  try {
    refuseForeignInterface(namespace, spec);
    await beforeCreation?.();
    const setUp = createPair(host, namespace, spec);
    try {
      if (setUp) throw setUp;
      bringUpHostEnd(host, spec);
      await hostEndReady?.();
      throwIfAborted(spec, signal);
      return setUpPodEnd(() => existing(host.socket, spec.hostName), namespace, spec);
    } catch (error) {
      throw await rolledBack(host, spec, SeineError.from(error, `set up ${spec.podName} of ${spec.alias}`));
    }
  } finally {
    namespace.close();
  }
}

/** @returns undefined if the namespace has no such interface. @throws SeineError `INVALID_INPUT` if there is no such namespace */
export function readPodInterface(netnsPath: string, podName: string): PodInterfaceState | undefined {
  return inspectNetns(netnsPath, { podName, families }, (inside, setUp) => {
    const neighbours = families.flatMap((family) => listNeighbours(inside, { family, link: setUp.link.index }));
    return { ...setUp, neighbours, offloads: readOffloads(inside, podName) };
  });
}

/** Like `readPodInterface`, for the state that each CHECK reads. @param of families whose addresses and routes are read */
export function readPodSetUp(netnsPath: string, podName: string, of: Iterable<Family>): PodInterfaceSetUp | undefined {
  return inspectNetns(netnsPath, { podName, families: [...of] }, (_, setUp) => setUp);
}

const families = ['ipv4', 'ipv6'] as const;

function inspectNetns<T>(
  netnsPath: string,
  { podName, families }: { readonly podName: string; readonly families: readonly Family[] },
  look: (inside: NetlinkSocket, setUp: PodInterfaceSetUp) => T,
): T | undefined {
  const namespace = NetworkNamespace.open(netnsPath);
  let socket: NetlinkSocket | undefined;
  try {
    const inside = (socket = NetlinkSocket.open({ namespace }));
    const link = getLink(inside, podName);
    if (link === undefined) return undefined;
    const { index } = link;
    const routes = families.flatMap((family) => listRoutes(inside, { family, link: index })).filter(({ table }) => table !== localTable);
    const addresses = families.flatMap((family) => listAddresses(inside, { family, link: index }));
    return look(inside, { link, addresses, routes });
  } finally {
    socket?.close();
    namespace.close();
  }
}

/**
 * @returns the error after the creation, if any: the pair exists then
 * @throws SeineError if there is no pair
 */
function createPair(host: HostLinks, namespace: NetworkNamespace, spec: PodInterfaceSpec): SeineError | undefined {
  const { hostName, podName, mac, mtu, alias, hostEnd } = spec;
  const batch = new Batch();
  createVeth(batch, { name: hostName, mtu, peer: { namespace, name: podName, mac, mtu } });
  changeLink(batch, hostName, hostEnd === 'layer2Only' ? { alias, arp: 'off' } : { alias });
  const [created, changed] = host.socket.attempt(batch);
  if (created === undefined) return changed;
  if (errnoOf(created) !== 'EEXIST') throw created;
  const conflict = getLink(host.socket, hostName) ? 'hostName' : 'podName';
  const where = conflict === 'hostName' ? `the node has an interface ${hostName}` : `${spec.netnsPath} has an interface ${podName}`;
  throw new SeineError('REFUSED', `create ${podName} of ${alias}: ${where} already`, {
    context: { ...created.context, conflict, hostName, podName },
    cause: created,
  });
}

/** @throws SeineError `INVALID_INPUT` if the path now refers to another namespace */
export function refuseForeignInterface(namespace: NetworkNamespace, { netnsCookie }: Pick<PodInterfaceSpec, 'netnsCookie'>): void {
  if (netnsCookie === undefined) return;
  const inside = NetlinkSocket.open({ namespace });
  try {
    const { path } = namespace;
    if (inside.namespaceCookie !== netnsCookie)
      throw new SeineError('INVALID_INPUT', `${path} is another namespace by now`, { context: { path } });
  } finally {
    inside.close();
  }
}

function throwIfAborted({ podName, alias }: PodInterfaceSpec, signal: AbortSignal): void {
  if (signal.aborted) throw new SeineError('CANCELLED', `set up ${podName} of ${alias}`, { cause: signal.reason });
}

function bringUpHostEnd(host: HostLinks, spec: PodInterfaceSpec): void {
  // Before the end is up, so that it never gets a link-local address nor joins a group.
  if (spec.hostEnd === 'layer2Only') writeSysctl(['net', 'ipv6', 'conf', spec.hostName, 'disable_ipv6'], 1);
  const up = new Batch();
  changeLink(up, spec.hostName, { state: 'up' });
  host.socket.transact(up);
}

/**
 * Sets addresses, routes and offload of an existing pod's end, in its namespace.
 *
 * @param hostEnd called last
 * @throws SeineError `REFUSED`, `UNAVAILABLE`
 */
export function setUpPodEnd(hostEnd: () => Link, namespace: NetworkNamespace, spec: PodInterfaceSpec): PodInterface {
  const pod = NetlinkSocket.open({ namespace });
  try {
    const podLink = existing(pod, spec.podName);
    if (spec.addresses.some(({ address }) => address.family === 'ipv6'))
      namespace.run(() => ensureSysctl(['net', 'ipv6', 'conf', spec.podName, 'disable_ipv6'], 0)); // some runtimes disable it
    if (spec.checksumOffload === 'off') setTransmitChecksum(pod, spec.podName, 'off');
    const routeTables = setUpRouting(pod, podLink.index, spec);
    const hostLink = hostEnd();
    return { hostIndex: hostLink.index, hostMac: hostLink.mac, podIndex: podLink.index, routeTables, netnsCookie: pod.namespaceCookie };
  } finally {
    pod.close();
  }
}

function existing(socket: NetlinkSocket, name: string): Link {
  const link = getLink(socket, name);
  if (link === undefined) throw new SeineError('UNAVAILABLE', `interface ${name} does not exist any more`);
  return link;
}

/** Not bound to the caller's signal: the work is undone although the caller no longer waits. */
async function rolledBack(host: HostLinks, { hostName }: PodInterfaceSpec, failure: SeineError): Promise<SeineError> {
  try {
    await host.remover.remove(hostName, new AbortController().signal);
    return failure;
  } catch (error) {
    return amended(failure, ' (and taking it back failed)', { rollback: String(error) });
  }
}
