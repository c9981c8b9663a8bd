import type { Family } from '../../base/net/ip.ts';
import type { IfIndex } from '../interface-name.ts';
import { familyOf, linkIn } from '../kernel-values.ts';
import { type NetlinkMessage, splitPayload } from '../message.ts';

/** Settings that the kernel reports as changed. Source: `struct netconfmsg`, `NETCONFA_*` (linux/netconf.h). */
export interface Netconf {
  readonly family: Family;
  /** `all` and `default` are `net.ipv4.conf.all` and `.default`. */
  readonly link: IfIndex | 'all' | 'default';
}

/** Decodes an `RTM_NEWNETCONF`; undefined for other families. @throws SeineError `PROTOCOL` */
export function decodeNetconf(message: NetlinkMessage): Netconf | undefined {
  const { head, attributes } = splitPayload(message.payload, NETCONFMSG_BYTES, 'netconf');
  const family = familyOf(head.getUint8(0));
  const number = attributes.i32(NETCONFA_IFINDEX);
  if (family === undefined || number === undefined) return undefined;
  if (number === ALL) return { family, link: 'all' };
  return { family, link: number === DEFAULT ? 'default' : linkIn(number, 'netconf') };
}

export const RTM_NEWNETCONF = 80;
/** One byte, padded to a multiple of four. */
const NETCONFMSG_BYTES = 4;
const NETCONFA_IFINDEX = 1;
const ALL = -1;
const DEFAULT = -2;
