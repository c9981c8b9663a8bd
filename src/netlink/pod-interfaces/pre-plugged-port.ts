import { SeineError } from '../../base/errors/seine-error.ts';
import { amended, errnoOf } from '../errno.ts';
import { setTransmitChecksum } from '../ethtool.ts';
import type { IfIndex } from '../interface-name.ts';
import { changeLink, createMacvlan, createVeth, deleteLink, getLink, type Link, listLinks } from '../links.ts';
import { Batch } from '../message.ts';
import { NetworkNamespace } from '../namespace.ts';
import { namespaceIdOf } from '../namespace-id.ts';
import { NetlinkSocket } from '../socket.ts';
import { writeSysctl } from '../sysctl.ts';
import { type PodInterface, type PodInterfaceSpec, refuseForeignInterface, setUpPodEnd } from './pod-interface.ts';
import type { PortsNamespace } from './ports-namespace.ts';

interface StandingPairSpec extends Pick<PodInterfaceSpec, 'hostName' | 'mtu' | 'hostEnd' | 'checksumOffload'> {
  /** Name of the other end, in the namespace of ports. */
  readonly farName: string;
}

/** Far end, and its namespace. */
export interface FarEnd {
  readonly ports: PortsNamespace;
  readonly index: IfIndex;
}

/**
 * Creates the pair of a pre-plugged port, with both ends up. The far end has the pod's checksum setting: it computes what a macvlan leaves
 * to its lower interface.
 *
 * @throws SeineError `REFUSED`; the caller removes what was created by its name
 */
export function createStandingPair(host: NetlinkSocket, ports: PortsNamespace, spec: StandingPairSpec): void {
  const { hostName, farName, mtu, hostEnd, checksumOffload } = spec;
  const batch = new Batch();
  createVeth(batch, { name: hostName, mtu, peer: { namespace: ports.namespace, name: farName, mtu } });
  if (hostEnd === 'layer2Only') changeLink(batch, hostName, { arp: 'off' });
  host.transact(batch);
  if (hostEnd === 'layer2Only') writeSysctl(['net', 'ipv6', 'conf', hostName, 'disable_ipv6'], 1);
  if (checksumOffload === 'off') setTransmitChecksum(ports.socket, farName, 'off');
  changeNow(ports.socket, farName, { state: 'up' });
  changeNow(host, hostName, { state: 'up' });
}

/**
 * Gives a pod an interface over a pre-plugged port: a macvlan, created in the pod's namespace, with the far end's MAC, which is changed
 * before.
 *
 * @param hostEnd of the port, which stays unchanged
 * @throws SeineError like `createPodInterface`; `REFUSED` with `conflict` `port` if the far end already has an interface over it
 */
export async function createPodOverPort(hostEnd: Link, far: FarEnd, spec: PodInterfaceSpec): Promise<PodInterface> {
  const namespace = NetworkNamespace.open(spec.netnsPath);
  try {
    refuseForeignInterface(namespace, spec);
    createOver(far, namespace, spec);
    try {
      // The far end computes checksums.
      return setUpPodEnd(() => hostEnd, namespace, { ...spec, checksumOffload: 'keep' });
    } catch (thrown) {
      throw await reclaimed(far, namespace, SeineError.from(thrown, `set up ${spec.podName} of ${spec.alias}`));
    }
  } finally {
    namespace.close();
  }
}

/** Creates the macvlan after setting the alias to the pod: after a crash the port is known to be in use. */
function createOver(
  { ports, index }: FarEnd,
  namespace: NetworkNamespace,
  { podName, mac, mtu, alias, netnsPath }: PodInterfaceSpec,
): void {
  const batch = new Batch();
  changeLink(batch, index, { mac, alias, state: 'up' });
  createMacvlan(batch, { name: podName, mtu, lower: index, namespace });
  const [changed, created] = ports.socket.attempt(batch);
  if (created === undefined && changed === undefined) return;
  const failure = changed ?? created;
  if (failure === undefined) return;
  const conflict = { EEXIST: 'podName', EINVAL: 'port' }[errnoOf(failure) ?? ''];
  const where = conflict === 'podName' ? `${netnsPath} has an interface ${podName} already` : failure.rawMessage;
  throw new SeineError('REFUSED', `create ${podName} of ${alias}: ${where}`, {
    context: { ...failure.context, ...(conflict ? { conflict } : {}), podName },
    cause: failure,
  });
}

async function reclaimed(far: FarEnd, namespace: NetworkNamespace, failure: SeineError): Promise<SeineError> {
  try {
    await deletePodOverPort(far, namespace);
    return failure;
  } catch (error) {
    return amended(failure, ' (and taking it back failed)', { rollback: String(error) });
  }
}

/**
 * Deletes a pod's interface over a pre-plugged port, in its namespace; afterwards there is none. Off the main thread, because the kernel
 * takes about 20 ms.
 */
export async function deletePodOverPort(far: FarEnd, namespace: NetworkNamespace): Promise<void> {
  const inside = NetlinkSocket.open({ namespace });
  try {
    const link = interfaceOver(inside, far);
    if (link === undefined) return;
    const batch = new Batch();
    deleteLink(batch, link.index);
    await inside.transactOffThread(batch);
  } catch (thrown) {
    if (errnoOf(thrown) !== 'ENODEV') throw thrown;
  } finally {
    inside.close();
  }
}

/** Returns the interface over a far end, if it is in the namespace of `inside`. Its name may have changed. */
export function interfaceOver(inside: NetlinkSocket, { ports, index }: FarEnd): Link | undefined {
  return interfacesOver(inside, ports).find(({ lowerIndex }) => lowerIndex === index);
}

/** Returns the interfaces over far ends, in the namespace of `inside`. */
export function interfacesOver(inside: NetlinkSocket, ports: PortsNamespace): readonly Link[] {
  const found = listLinks(inside, { kind: 'macvlan' });
  // A number is meaningful only in its namespace.
  const id = found.length === 0 ? undefined : namespaceIdOf(inside, ports.namespace);
  return id === undefined ? [] : found.filter(({ peerNamespaceId }) => peerNamespaceId === id);
}

/** Reports whether the kernel supports macvlan: tested with an interface that is deleted again. @throws nothing */
export function hasMacvlan(ports: PortsNamespace): boolean {
  const lo = getLink(ports.socket, 'lo');
  if (lo === undefined) return false;
  const batch = new Batch();
  // Over the loopback the kernel refuses every macvlan, with another error than for an unknown kind.
  createMacvlan(batch, { name: 'seine-probe', mtu: 1280, lower: lo.index, namespace: ports.namespace });
  const [refusal] = ports.socket.attempt(batch);
  return refusal === undefined || errnoOf(refusal) !== 'EOPNOTSUPP';
}

function changeNow(socket: NetlinkSocket, name: string, change: Parameters<typeof changeLink>[2]): void {
  const batch = new Batch();
  changeLink(batch, name, change);
  socket.transact(batch);
}
