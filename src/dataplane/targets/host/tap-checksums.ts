import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { readTransmitChecksum } from '../../../netlink/ethtool.ts';
import { getLink } from '../../../netlink/links.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';

/** Undefined of what is there no such setting to want: what is no tap, whose reader is told what is left to be done, or what is gone. */
export function readTapChecksum(socket: NetlinkSocket, device: string): 'on' | 'off' | undefined {
  try {
    return getLink(socket, device)?.vnetHeader === false ? readTransmitChecksum(socket, device) : undefined;
  } catch (thrown) {
    const error = SeineError.from(thrown, device);
    if (errnoOf(error) === 'ENODEV') return undefined;
    throw error;
  }
}
