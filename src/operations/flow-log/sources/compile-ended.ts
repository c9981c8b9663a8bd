import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { nothing, type Wanted } from '../../../dataplane/desired/host-entries.ts';
import { reg } from '../../../dataplane/pipeline/fields.ts';
import { type CtState, type Flow, goto, type Match, type Meter, priority, type Step } from '../../../dataplane/pipeline/flow.ts';
import { endedMeters, seenMeters } from '../../../dataplane/pipeline/well-known.ts';
import { copiedHeaderBytes, copyRateOf } from './compile-opened.ts';
import { type Sampling, sampledPorts } from './sampled-connections.ts';

/** Below the flows that admit: a packet that opens a connection is no end of one. */
const levels = { fin: priority.low, rst: priority.aboveLow, syn: priority.lowest, seen: priority.aboveMiss } as const;

/** Priorities of the flows that copy ends. */
export const endedPriorities: ReadonlySet<number> = new Set([levels.fin, levels.rst]);

/** Rate and burst of copies of connections that were open before the log was turned on, for each port. */
const seenRate = { rate: 20, burst: 20 } as const;

/**
 * Compiles flows that copy to the agent the packets that end TCP connections: the FIN of the end that opened it, and a reset of either end;
 * and the SYN that answers the first packet, whose number is the begin of what the other end sends. Two copies for each connection that ends
 * as usual; repeated packets are copied again. As in `compileOpened`, the packet itself continues, and the meter limits only the copies.
 * Pure.
 */
export function compileEnded(ofPort: number, environment: NodeEnvironment, sampling: Sampling = 1): Wanted {
  const chosen = chosenBy(sampling);
  const ends: Meter = { id: endedMeters.offset + ofPort, unit: 'packets', ...copyRateOf(ofPort) };
  const answers: Meter = { ...ends, id: seenMeters.offset + ofPort };
  const copyTo = ({ id }: Meter, reason: 'ended' | 'answered'): Step => ({ do: 'toAgent', reason, meter: id, bytes: copiedHeaderBytes });
  const flows = familiesOf(environment).flatMap((payload): Flow[] => {
    const flow = (tcpFlag: 'fin' | 'rst' | 'syn', copy: Step, ctState: NonNullable<Match['ctState']>): Flow => ({
      table: 'commit',
      priority: levels[tcpFlag],
      match: { inPort: ofPort, payload, protocol: 'tcp', tcpFlag, ctState, ...chosen, regs: [reg.probe('no')] },
      steps: [copy, goto('tunnel')],
    });
    return [
      flow('fin', copyTo(ends, 'ended'), { ...established, rpl: '-' }),
      flow('rst', copyTo(ends, 'ended'), established),
      flow('syn', copyTo(answers, 'answered'), { ...established, rpl: '+' }),
    ];
  });
  return { ...nothing, meters: [ends, answers], flows };
}

/** Match of the connections that are recorded, by the source port of their first packet. */
function chosenBy(sampling: Sampling): Pick<Match, 'ctPortSrc'> {
  const ctPortSrc = sampledPorts(sampling);
  return ctPortSrc ? { ctPortSrc } : {};
}

const established: Partial<Record<CtState, '+' | '-'>> = { trk: '+', est: '+' };

/**
 * Compiles flows that copy to the agent some packets of established connections that enter by a port, up to a rate: of connections that were
 * opened before the log was turned on. They are installed for a short time, because each packet passes the meter meanwhile. Pure.
 */
export function compileSeen(ofPort: number, environment: NodeEnvironment, sampling: Sampling = 1): Wanted {
  const own: Meter = { id: seenMeters.offset + 0x1_0000 + ofPort, unit: 'packets', ...seenRate };
  const copy: Step = { do: 'toAgent', reason: 'seen', meter: own.id, bytes: copiedHeaderBytes };
  const flows = familiesOf(environment).map(
    (payload): Flow => ({
      table: 'commit',
      priority: levels.seen,
      match: { inPort: ofPort, payload, ctState: { ...established, rpl: '-', rel: '-' }, ...chosenBy(sampling), regs: [reg.probe('no')] },
      steps: [copy, goto('tunnel')],
    }),
  );
  return { ...nothing, meters: [own], flows };
}
