import { SeineError } from '../../base/errors/seine-error.ts';
import { standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import { getLink } from '../../netlink/links.ts';
import { NetworkNamespace } from '../../netlink/namespace.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';

/**
 * Reports whether anything of a pod's sandbox is left: the host interface, which is removed with the namespace of the other end, or the
 * namespace at its path. True if that is unknown.
 *
 * @param host socket of the node
 */
export function hasSandbox(host: NetlinkSocket, { netns, attached }: Pick<AttachedLease, 'netns' | 'attached'>): boolean {
  // A pre-plugged port stays when its pod is deleted.
  if (!standingPortPattern.test(attached.hostIfName) && getLink(host, attached.hostIfName) !== undefined) return true;
  let namespace: NetworkNamespace;
  try {
    namespace = NetworkNamespace.open(netns);
  } catch (thrown) {
    return SeineError.from(thrown, 'open a namespace').code !== 'INVALID_INPUT';
  }
  try {
    return attached.netnsCookie === undefined || cookieOf(namespace) === attached.netnsCookie;
  } finally {
    namespace.close();
  }
}

/** Cookie of a namespace. Another namespace may have the path by now, and even the inode. */
function cookieOf(namespace: NetworkNamespace): string | undefined {
  const inside = NetlinkSocket.open({ namespace });
  try {
    return inside.namespaceCookie;
  } finally {
    inside.close();
  }
}
