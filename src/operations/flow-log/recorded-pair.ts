import type { FlowLog } from './flow-log.ts';
import type { NumberedFlow } from './records/flow-record.ts';

/** Ends of a recorded connection whose sender is a pod of this node, as the query of a trace. */
type RecordedPair = Readonly<Record<'from' | 'to' | 'port' | 'family', string>>;

const portProtocols: Readonly<Record<number, string>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };
const icmp: ReadonlySet<number> = new Set([1, 58]);
/** Records that are looked at for one whose sender is here. */
const TRIED_MAX = 16;

/**
 * Returns the ends of a recorded connection; undefined if some records in a row have none that a pod of this node opened.
 *
 * @param chance from 0 to 1, without 1: selects the record
 */
export function recordedPair(log: Pick<FlowLog, 'numbers' | 'get'>, chance: number): RecordedPair | undefined {
  const { next, oldest } = log.numbers;
  const first = oldest + Math.floor(chance * (next - oldest));
  for (let number = first; number < Math.min(next, first + TRIED_MAX); number++) {
    const flow = log.get(number);
    const pair = flow && pairOf(flow);
    if (pair) return pair;
  }
  return undefined;
}

function pairOf({ reporter, protocol, source, destination, service }: NumberedFlow): RecordedPair | undefined {
  if (reporter === 'destination' || source.kind !== 'pod' || source.name === undefined) return undefined;
  const to = service ?? destination;
  const port = icmp.has(protocol) ? 'icmp' : to.port === undefined ? undefined : `${to.port}/${portProtocols[protocol]}`;
  if (port === undefined || (port !== 'icmp' && portProtocols[protocol] === undefined)) return undefined;
  return { from: source.name, to: to.ip.text, port, family: source.ip.family };
}
