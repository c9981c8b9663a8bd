import { SeineError } from '../errors/seine-error.ts';
import { changeLink, getLink } from '../netlink/links.ts';
import { Batch } from '../netlink/message.ts';
import { NetworkNamespace } from '../netlink/namespace.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import type { AttachedPod, PodAttachment } from './pod-network-port.ts';

/**
 * Gives both ends of a pod's interface another MTU. A smaller one that the pod's end has been given by somebody else stays.
 *
 * @param host a socket in the node's namespace
 * @throws SeineError `INVALID_INPUT` if the pod's namespace or interface is not there any more, `REFUSED`
 */
export function resizePod(
  host: NetlinkSocket,
  { netns, ifName, mac, attached }: Pick<PodAttachment, 'netns' | 'ifName' | 'mac'> & { readonly attached: AttachedPod },
  mtu: number,
): void {
  const namespace = NetworkNamespace.open(netns);
  let socket: NetlinkSocket | undefined;
  try {
    const inside = (socket = NetlinkSocket.open({ namespace }));
    const link = getLink(inside, ifName);
    // The path of a process is another's when the process is.
    if (link?.mac !== mac) throw new SeineError('INVALID_INPUT', `${netns} has no interface ${ifName} with MAC ${mac}`);
    setMtu(host, attached.hostIfName, mtu);
    if (link.mtu === attached.mtu || link.mtu > mtu) setMtu(inside, ifName, mtu);
  } finally {
    socket?.close();
    namespace.close();
  }
}

function setMtu(socket: NetlinkSocket, name: string, mtu: number): void {
  const batch = new Batch();
  changeLink(batch, name, { mtu });
  socket.transact(batch);
}
