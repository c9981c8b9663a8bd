import type { Family } from '../../base/net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority } from '../pipeline/flow.ts';

/**
 * Compiles flows for packets that the userspace data path's connection tracking considers invalid although it knows the connection; the
 * kernel's sets no mark on any packet that it considers invalid. Pure.
 *
 * Such a packet passes, translated as usual, and the ends evaluate it by their own sequence numbers. Connection tracking counts from a
 * client's first SYN, even if another one with new numbers came before any reply, and then considers the server's packets invalid. The
 * packet has no direction, so it is never admitted as a reply: policy is evaluated as for a packet that opens a connection, and nothing is
 * committed. If the connection was never admitted, the packet is dropped.
 *
 * A packet that opens a connection where connection tracking still has an old one, whose end was lost, is first sent to the agent.
 * Connection tracking keeps the old one for a day, and considers all packets of the new one invalid; the kernel's accepts such a SYN. The
 * agent makes OVS delete the old connection and sends the packet again. If the server still has the old one, it replies with a challenge
 * ACK, and the client with a reset (RFC 9293 section 3.10.7.4) whose number connection tracking cannot know. The reset passes, and the
 * agent deletes this attempt too, so that the client's next one is new.
 *
 * Only for pods and peers: they can send only their own packets, and so end only their own connections. Behind the gateway may be any host
 * that guesses another's addresses and ports.
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
    // Of no known connection: invalid itself.
    flow(priority.override, { ...invalid, ctMarks: [ctMark.source(0)] }, ...drop),
    flow(priority.override, { ...invalid, ctMarks: [ctMark.unadmitted('yes')] }, ...drop),
    ...(['pod', 'tunnel'] as const).flatMap((from) => [
      flow(priority.highest, { ...invalid, tcpFlags: 'syn', regs: [reg.source(from), reg.halfOpenProbe('no')] }, toAgent),
      ...passing(priority.highest, { tcpFlags: 'rst', regs: [reg.source(from)] }, toAgent),
    ]),
    ...passing(priority.higher, {}),
  ];
}
