import type { Family, Ip } from '../../base/net/ip.ts';
import { addressOf } from './family-trace.ts';
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

export function earlierConnection(question: TraceQuestion, family: Family): EarlierConnection {
  const { from, to, protocol, port, sourcePort, hasSourcePort } = question;
  return {
    protocol: protocol === 'icmp' ? icmp[family] : protocolNumbers[protocol],
    source: addressOf(from.addresses, family),
    destination: addressOf(to.addresses, family),
    ...(port !== undefined && { port }),
    ...(hasSourcePort && protocol !== 'icmp' && { sourcePort }),
  };
}
