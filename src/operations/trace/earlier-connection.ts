import type { Ip } from '../../base/net/ip.ts';
import type { TracedEnds } from './trace-ends.ts';
import type { TraceQuestion } from './trace-question.ts';

/** Connection of which a later packet is traced. */
export interface EarlierConnection {
  /** IP protocol number. */
  readonly protocol: number;
  readonly source: Ip;
  /** The receiver, or the address of a Service. */
  readonly destination: Ip;
  /** Absent for ICMP. */
  readonly port?: number;
  /** Absent: any. */
  readonly sourcePort?: number;
}

const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const;
const icmp = { ipv4: 1, ipv6: 58 } as const;

export function earlierConnection(
  { protocol, sourcePort, hasSourcePort }: Pick<TraceQuestion, 'protocol' | 'sourcePort' | 'hasSourcePort'>,
  { source, destination, port }: TracedEnds,
): EarlierConnection {
  return {
    protocol: protocol === 'icmp' ? icmp[source.family] : protocolNumbers[protocol],
    source,
    destination,
    ...(port !== undefined && { port }),
    ...(hasSourcePort && protocol !== 'icmp' && { sourcePort }),
  };
}
