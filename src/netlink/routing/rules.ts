import { addressBits, type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import { familyNumber, familyOf } from '../kernel-values.ts';
import { type Batch, flag, type NetlinkMessage, splitPayload } from '../message.ts';
import type { ListRequest, NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';
import { ourProtocol } from './routes.ts';

/** Rule of the routing policy: packets that it selects are looked up in `table`, at `priority` (0 to 32765 come before the main table). */
export interface NewRule {
  readonly family: Family;
  readonly table: number;
  readonly priority: number;
  /** Source address of the packets; default: any. */
  readonly source?: Ip;
  /** Bits of the packet's mark (`skb->mark`) that are all set; default: any mark. */
  readonly mark?: number;
}

/** Rule of the kernel. Source: `struct fib_rule_hdr`, `FRA_*` (linux/fib_rules.h). */
export interface Rule extends Pick<NewRule, 'family' | 'table' | 'priority' | 'mark'> {
  readonly protocol: number;
  /** Set if it has conditions or an action that none of Seine's rules on the node has. */
  readonly unmodelled: boolean;
  /** The kernel's description: `struct fib_rule_hdr` and attributes. */
  readonly described: Uint8Array;
}

/** Fails with `EEXIST` if an equal rule exists. */
export function addRule(batch: Batch, rule: NewRule): void {
  const { family, source, table, priority, mark } = rule;
  batch.message(RTM_NEWRULE, flag.create | flag.exclusive, `add ${textOf(rule)}`, () => {
    ruleHeader(batch, { family, sourceBits: source ? addressBits(family) : 0, action: FR_ACT_TO_TBL });
    if (source) batch.attribute(FRA_SRC, ipToBytes(source));
    batch.attributeU32(FRA_PRIORITY, priority).attributeU32(FRA_TABLE, table);
    if (mark !== undefined) batch.attributeU32(FRA_FWMARK, mark).attributeU32(FRA_FWMASK, mark);
    batch.attributeU8(FRA_PROTOCOL, ourProtocol);
  });
}

/**
 * Deletes the first rule with all of this, and with Seine's protocol number; it may have further conditions. Fails with `ENOENT` if there
 * is none.
 */
export function deleteRule(batch: Batch, rule: Omit<NewRule, 'source'>): void {
  const { family, table, priority, mark } = rule;
  batch.message(RTM_DELRULE, 0, `delete ${textOf(rule)}`, () => {
    ruleHeader(batch, { family, sourceBits: 0, action: FR_ACT_TO_TBL });
    batch.attributeU32(FRA_PRIORITY, priority).attributeU32(FRA_TABLE, table);
    if (mark !== undefined) batch.attributeU32(FRA_FWMARK, mark).attributeU32(FRA_FWMASK, mark);
    batch.attributeU8(FRA_PROTOCOL, ourProtocol);
  });
}

/**
 * Deletes exactly a rule that was listed, like `ip rule flush`: the kernel accepts its own description of it. Fails with `ENOENT` if it no
 * longer exists.
 */
export function deleteListedRule(batch: Batch, rule: Rule): void {
  batch.message(RTM_DELRULE, 0, `delete ${textOf(rule)}`, () => {
    for (const byte of rule.described) batch.u8(byte);
  });
}

export function listRules(socket: NetlinkSocket, family: Family): Rule[] {
  return socket.list(ruleList(family));
}

/** Like `listRules`, off the main thread. */
export async function listRulesOffThread(socket: NetlinkSocket, family: Family): Promise<Rule[]> {
  return await socket.listOffThread(ruleList(family));
}

function ruleList(family: Family): ListRequest<Rule> {
  return {
    type: RTM_GETRULE,
    what: `list ${family} rules`,
    body: (batch) => batch.u8(familyNumber[family]).u8(0).u8(0).u8(0).u32(0).u32(0),
    decode: (message) => (message.type === RTM_NEWRULE ? decodeRule(message) : undefined),
  };
}

/** Decodes an `RTM_NEWRULE` or `RTM_DELRULE`; undefined for other families. @throws SeineError `PROTOCOL` */
export function decodeRule(message: NetlinkMessage): Rule | undefined {
  const { head, attributes } = splitPayload(message.payload, RULE_HEADER_LENGTH, 'rule');
  const family = familyOf(head.getUint8(0));
  if (family === undefined) return undefined;
  const mark = attributes.u32(FRA_FWMARK) ?? 0;
  const mask = attributes.u32(FRA_FWMASK) ?? 0;
  const selectors = [1, 2, 3].some((at) => head.getUint8(at) !== 0);
  const inverted = (head.getUint32(8, littleEndian) & FIB_RULE_INVERT) !== 0;
  return {
    family,
    table: attributes.u32(FRA_TABLE) ?? head.getUint8(4),
    priority: attributes.u32(FRA_PRIORITY) ?? 0,
    ...(mask === 0 ? {} : { mark: mask }),
    protocol: attributes.u8(FRA_PROTOCOL) ?? 0,
    described: message.payload.slice(),
    unmodelled:
      selectors ||
      inverted ||
      mark !== mask ||
      head.getUint8(7) !== FR_ACT_TO_TBL ||
      attributes.types.some((type) => !modelled.has(type)) ||
      (attributes.u32(FRA_SUPPRESS_PREFIXLEN) ?? NO_SUPPRESSION) !== NO_SUPPRESSION,
  };
}

/** `struct fib_rule_hdr`: u8 family · destination length · source length · TOS · table · 2 reserved · action, u32 flags */
function ruleHeader(
  batch: Batch,
  { family, sourceBits, action }: { readonly family: Family; readonly sourceBits: number; readonly action: number },
): void {
  batch.u8(familyNumber[family]).u8(0).u8(sourceBits).u8(0);
  batch.u8(0).u8(0).u8(0).u8(action).u32(0);
}

function textOf({ family, source, mark, table }: NewRule): string {
  const which = source ? ` from ${source.text}` : mark === undefined ? '' : ` with mark 0x${mark.toString(16)}`;
  return `rule for ${family} packets${which} to table ${table}`;
}

export const RTM_NEWRULE = 32;
export const RTM_DELRULE = 33;
const RTM_GETRULE = 34;
const RULE_HEADER_LENGTH = 12;
const FR_ACT_TO_TBL = 1;
const FIB_RULE_INVERT = 2;
const FRA_SRC = 2;
const FRA_PRIORITY = 6;
const FRA_FWMARK = 10;
const FRA_SUPPRESS_PREFIXLEN = 14;
const FRA_TABLE = 15;
const FRA_FWMASK = 16;
const FRA_PROTOCOL = 21;
const NO_SUPPRESSION = 0xffff_ffff;

/** The kernel shows the suppressed prefix length of every rule; without suppression it is all ones. */
const modelled = new Set([FRA_PRIORITY, FRA_FWMARK, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_FWMASK, FRA_PROTOCOL]);
