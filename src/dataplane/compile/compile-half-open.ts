import type { Family } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority } from '../pipeline/flow.ts';

/**
 * What the tracker of the userspace data path calls invalid although it knows the connection; the kernel's has a mark for nothing that
 * it calls invalid. Pure.
 *
 * It passes, translated as ever, and the ends judge it by their own numbers: the tracker counts from a client's first SYN, though
 * another came with new numbers before any answer, and then calls invalid what the server says. It has no direction, so it never stands
 * as an answer does: who may talk to whom is asked as for a packet that opens a connection, and nothing is committed. Of a connection
 * that nobody let in it ends here.
 *
 * What opens a connection where the tracker has one already, whose end was lost, is looked at by the agent first. The tracker keeps the
 * old one for a day, and calls all invalid that belongs to the new one; the kernel's lets such a SYN pass. The agent has the switch
 * forget the old connection, and the packet comes once more. If the server has the old one still, it answers with a challenge, and the
 * client with a reset (RFC 9293 section 3.10.7.4) that has no number the tracker could know. It passes, and the agent has this attempt
 * forgotten too, so that the client's next one is new.
 *
 * Only for pods and peers: what they send is their own, and their own connections are all that they can end. Who sends by the gateway
 * may be any host that guesses another's addresses and ports.
 */
export function invalidOfKnown(family: Family): readonly Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'state',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const invalid: Match = { ctState: { inv: '+', trk: '+' }, protocol: 'tcp' };
  const toAgent: Step = { do: 'toAgent', reason: 'halfOpen' };
  const passing = (level: number, match: Match, ...before: readonly Step[]): Flow[] => [
    flow(level, { ...invalid, ...match, ctMarks: [ctMark.service('no')] }, ...before, goto('egressEntry')),
    flow(level, { ...invalid, ...match, ctMarks: [ctMark.service('yes')] }, ...before, load(reg.routed('yes')), goto('egressEntry')),
  ];
  return [
    flow(priority.guard, { protocol: 'tcp', regs: [reg.halfOpenProbe('sent')] }, toAgent),
    // Of no known connection: invalid by itself.
    flow(priority.override, { ...invalid, ctMarks: [ctMark.source(0)] }, ...drop),
    flow(priority.override, { ...invalid, ctMarks: [ctMark.barred('yes')] }, ...drop),
    ...(['pod', 'tunnel'] as const).flatMap((from) => [
      flow(priority.highest, { ...invalid, tcpFlags: 'syn', regs: [reg.source(from), reg.halfOpenProbe('no')] }, toAgent),
      ...passing(priority.highest, { tcpFlags: 'rst', regs: [reg.source(from)] }, toAgent),
    ]),
    ...passing(priority.higher, {}),
  ];
}
