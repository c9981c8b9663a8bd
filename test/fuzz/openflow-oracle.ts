import type { MessageKind } from '../../src/openflow/message.ts';
import { printMessage } from '../../src/openflow/text/message-text.ts';
import type { OvsVerdict } from './ofp-parse.ts';
import type { Verdict } from './openflow-survival.ts';

/** Messages that we reject and ovs-ofctl reads, by our error text, and the reasons. */
const stricter: readonly (readonly [RegExp, string])[] = [
  [/bytes too many$/, 'the tool ignores what follows the last member of some messages; we would lose it'],
  [/^\[PROTOCOL\] property/, 'the tool forgives a property of nx_ct_flush that is shorter than its value'],
  [/^\[PROTOCOL\] hello/, 'the tool prints a hello whose elements it could not read'],
  [/^\[PROTOCOL\] group type/, 'the tool prints a group of a type that there is not, without the type'],
  [/^\[PROTOCOL\] meter band/, 'the tool does not look at the bands of a meter that is deleted'],
  [
    /^\[PROTOCOL\] (flow description|\w+ statistics|statistics|message|match fields|action)/,
    'the tool stops at a reply that ends within an entry',
  ],
];

/** Messages that we read and ovs-ofctl rejects: properties of `encap` are bytes to us; a port of 16 bits is a separate field. */
const laxer = /encap\(|in_port.*in_port/;
/** Nor is this duplicate: after any field of Ethernet, the tool assumes a packet type. Ours come first. */
const saidAlready = /packet_type=/;

/** Errors of structure: contradictory lengths and duplicates. Others are about values. */
const structural: ReadonlySet<string> = new Set([
  'OFPBMC_BAD_LEN',
  'OFPBMC_DUP_FIELD',
  'OFPBIC_BAD_LEN',
  'OFPBIC_DUP_INST',
  'OFPBAC_BAD_LEN',
  'OFPBPC_BAD_LEN',
]);

/** Messages that carry flows themselves: not a message within a message, which is passed through unchanged. */
const carriers: ReadonlySet<MessageKind | 'unknown'> = new Set(['flowMod', 'groupMod', 'packetOut', 'flowRequest', 'flowReply']);

/**
 * Compares our verdict with that of ovs-ofctl: we read whatever it reads; and if it rejects the structure of a flow, a group or a
 * packet-out, we reject it too, or keep the malformed part as `unknown`. Impossible values (a port 0, a field that cannot be set) are for
 * the switch to reject, not for the decoder.
 *
 * @returns the difference, or nothing
 */
export function disagreement(ours: Verdict, theirs: OvsVerdict): string | undefined {
  if (ours.kind === 'refused') {
    if (theirs.text.includes('***') || stricter.some(([reason]) => reason.test(ours.reason))) return undefined;
    return `refused with "${ours.reason}", read by ovs-ofctl as ${theirs.text.slice(0, 300)}`;
  }
  const isBroken = theirs.error !== undefined && structural.has(theirs.error);
  if (!isBroken || !ours.whole || !carriers.has(ours.message.kind)) return undefined;
  const text = printMessage(ours.message);
  const isAllowed = laxer.test(text) || (theirs.error === 'OFPBMC_DUP_FIELD' && saidAlready.test(text));
  return isAllowed ? undefined : `read as ${text}, refused by ovs-ofctl with ${theirs.error}`;
}
