import type { Family } from '../net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Match, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority } from '../pipeline/flow.ts';

/**
 * What opens a connection where the tracker has one already, whose end was lost. The tracker of the userspace data path calls that
 * invalid for as long as it keeps the old one, a day; the kernel's lets it pass, and has a mark for nothing that it calls invalid.
 *
 * The agent has the switch forget the old connection, and the packet comes once more. If the server has the old one still, it answers
 * with a challenge, and the client with a reset (RFC 9293 section 3.10.7.4) that has no number the tracker could know. It passes, and
 * the agent has this attempt forgotten too, so that the client's next one is new.
 *
 * Only for pods and peers: what they send is their own, and their own connections are all that they can end. Who sends by the gateway
 * may be anybody who guesses another's addresses and ports. Pure.
 */
export function halfOpenConnections(family: Family): readonly Flow[] {
  const flow = (level: number, match: Match, ...steps: Step[]): Flow => ({
    table: 'state',
    priority: level,
    match: { payload: family, ...match },
    steps,
  });
  const invalid: Match = { ctState: { inv: '+', trk: '+' }, protocol: 'tcp' };
  const toAgent: Step = { do: 'toAgent', reason: 'halfOpen' };
  return [
    flow(priority.override, { protocol: 'tcp', regs: [reg.recovery('asked')] }, toAgent),
    // Of no known connection: invalid by itself.
    flow(priority.highest, { ...invalid, ctMarks: [ctMark.source(0)] }, ...drop),
    ...(['pod', 'tunnel'] as const).flatMap((from) => [
      flow(priority.higher, { ...invalid, tcpFlags: 'syn', regs: [reg.source(from), reg.recovery('no')] }, toAgent),
      ...[ctMark.service('no'), ctMark.service('yes')].map((service, isService) =>
        flow(
          priority.higher,
          { ...invalid, tcpFlags: 'rst', ctMarks: [service], regs: [reg.source(from)] },
          toAgent,
          ...(isService ? [load(reg.rewriteMac('yes'))] : []),
          goto('egressAdmin'),
        ),
      ),
    ]),
  ];
}
