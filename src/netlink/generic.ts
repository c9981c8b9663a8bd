import { SeineError } from '../base/errors/seine-error.ts';
import { type Batch, splitPayload } from './message.ts';
import type { NetlinkSocket } from './socket.ts';

/** Length of `struct genlmsghdr` (linux/genetlink.h), with which each message of generic netlink begins. */
export const genericHeaderBytes = 4;

/**
 * Current number of a generic netlink family; undefined if it is not registered. Source: linux/genetlink.h.
 *
 * @param socket of protocol `generic`
 */
export function familyNumber(socket: NetlinkSocket, name: string): number | undefined {
  return socket.get(
    GENL_ID_CTRL,
    `find netlink family ${name}`,
    (batch) => void genericHeader(batch, CTRL_CMD_GETFAMILY, 1).attributeText(CTRL_ATTR_FAMILY_NAME, name),
    ({ payload }) => {
      const number = splitPayload(payload, genericHeaderBytes, 'netlink family').attributes.u16(CTRL_ATTR_FAMILY_ID);
      if (number === undefined) throw new SeineError('PROTOCOL', `netlink family ${name} has no number`);
      return number;
    },
  );
}

/** Adds a `struct genlmsghdr`: u8 command · u8 version · 2 unused. */
export function genericHeader(batch: Batch, command: number, version: number): Batch {
  return batch.u8(command).u8(version).u16(0);
}

const GENL_ID_CTRL = 0x10;
const CTRL_CMD_GETFAMILY = 3;
const CTRL_ATTR_FAMILY_ID = 1;
const CTRL_ATTR_FAMILY_NAME = 2;
