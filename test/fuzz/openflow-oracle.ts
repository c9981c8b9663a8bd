import type { MessageKind } from '../../src/openflow/message.ts';
import { printMessage } from '../../src/openflow/text/message-text.ts';
import type { OvsVerdict } from './ofp-parse.ts';
import type { Verdict } from './openflow-survival.ts';

/** What we refuse and ovs-ofctl reads, by our words for it, and why that stays so. */
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

/** What we read and ovs-ofctl finds broken: properties of `encap` are octets to us; a port of 16 bits is a field of its own. */
const laxer = /encap\(|in_port.*in_port/;
/** Nor is this there twice: behind any field of Ethernet, to the tool a packet type has been said already. Ours come first. */
const saidAlready = /packet_type=/;

/** Errors of structure: lengths that contradict each other, and what stands there twice. Others are about values. */
const structural: ReadonlySet<string> = new Set([
  'OFPBMC_BAD_LEN',
  'OFPBMC_DUP_FIELD',
  'OFPBIC_BAD_LEN',
  'OFPBIC_DUP_INST',
  'OFPBAC_BAD_LEN',
  'OFPBPC_BAD_LEN',
]);

/** Messages that carry flows themselves: not a message within a message, which we hand on as it is. */
const carriers: ReadonlySet<MessageKind | 'unknown'> = new Set(['flowMod', 'groupMod', 'packetOut', 'flowRequest', 'flowReply']);

/**
 * Whether our verdict and that of ovs-ofctl agree: we read whatever it reads; and where it finds the structure of a flow, a group
 * or a packet-out broken, we refuse it too, or keep the broken part as `unknown`. That a value is impossible (a port 0, a field
 * that cannot be set) is for the switch to say and not for who reads.
 *
 * @returns what is wrong, or nothing
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
