import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { readTransmitChecksum } from '../../../netlink/ethtool.ts';
import { getLink } from '../../../netlink/links.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';

/**
 * Returns the checksum offload of a tap; undefined if the setting does not apply: the device is not a tap, its reader uses virtio-net
 * headers, or it no longer exists.
 */
export function readTapChecksum(socket: NetlinkSocket, device: string): 'on' | 'off' | undefined {
  try {
    return getLink(socket, device)?.vnetHeader === false ? readTransmitChecksum(socket, device) : undefined;
  } catch (thrown) {
    const error = SeineError.from(thrown, device);
    if (errnoOf(error) === 'ENODEV') return undefined;
    throw error;
  }
}
