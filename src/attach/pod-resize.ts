import { SeineError } from '../errors/seine-error.ts';
import { isAttached } from '../ipam/attached-lease.ts';
import type { AttachedPod, PodAttachment } from '../ipam/attachment.ts';
import type { Ipam } from '../ipam/ipam.ts';
import type { Log } from '../log/log.ts';
import { changeLink, getLink } from '../netlink/links.ts';
import { Batch } from '../netlink/message.ts';
import { NetworkNamespace } from '../netlink/namespace.ts';
import { NetlinkSocket } from '../netlink/socket.ts';

interface ResizePodsPorts {
  /** A socket in the node's namespace. */
  readonly host: NetlinkSocket;
  readonly ipam: Pick<Ipam, 'leases' | 'confirm'>;
  readonly log: Log;
}

/** Running pods follow the MTU of the transport: packets too large for the tunnel would be dropped without an error. */
export function resizePods({ host, ipam, log }: ResizePodsPorts, mtu: number): void {
  for (const lease of ipam.leases()) {
    if (lease.state !== 'allocated' || !isAttached(lease) || lease.attached.mtu === mtu) continue;
    try {
      resizePod(host, lease, mtu);
      ipam.confirm(lease, { ...lease.attached, mtu });
      log.info('the MTU of a pod follows the node’s', { pod: lease.pod?.name, container: lease.containerId, mtu });
    } catch (thrown) {
      log.failing(`MTU ${lease.containerId}`, 'a pod keeps an MTU that is not the node’s', {
        pod: lease.pod?.name,
        container: lease.containerId,
        mtu: lease.attached.mtu,
        cause: SeineError.from(thrown, 'resize').message,
      });
    }
  }
}

/**
 * Gives both ends of a pod's interface another MTU. A smaller one that another program has given the pod's end stays.
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
