import { splitPayload } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import type { NetlinkSocket } from './socket.ts';

/** Source: linux/rtnetlink.h, linux/net_namespace.h. */
const RTM_GETNSID = 90;
const NETNSA_NSID = 1;
const NETNSA_FD = 3;
/** `struct rtgenmsg`, aligned. */
const RTGENMSG_LENGTH = 4;

/**
 * Returns the number of another namespace within the namespace of `socket`: a veth refers to its other end's namespace by it.
 *
 * @returns undefined if it has no number there: then no link refers to it
 */
export function namespaceIdOf(socket: NetlinkSocket, namespace: NetworkNamespace): number | undefined {
  const id = socket.get(
    RTM_GETNSID,
    `get the number of ${namespace.path}`,
    (batch) => {
      batch.u32(0).attributeU32(NETNSA_FD, namespace.fd);
    },
    ({ payload }) => splitPayload(payload, RTGENMSG_LENGTH, 'namespace').attributes.i32(NETNSA_NSID),
  );
  return id === undefined || id < 0 ? undefined : id;
}
