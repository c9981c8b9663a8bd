import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family, Ip } from '../../base/net/ip.ts';

/** Kind of the address by which a host outside reaches a Service, as text. */
type ServiceWay = 'load balancer address' | 'external IP' | 'node port';

/** One address of a receiver. */
export interface TraceTarget {
  readonly ip: Ip;
  /** Absent for ICMP. */
  readonly port?: number;
  readonly way?: ServiceWay;
}

/** Ends of one packet of a question, as its sender sends it. */
export interface TracedEnds {
  readonly source: Ip;
  readonly destination: Ip;
  /** Absent for ICMP. */
  readonly port?: number;
  readonly way?: ServiceWay;
}

/** Sender and receiver, each with its addresses. */
interface EndsOfQuestion {
  readonly from: { readonly addresses: readonly Ip[] };
  readonly to: { readonly addresses: readonly Ip[]; readonly targets?: readonly TraceTarget[] };
  /** Absent for ICMP. */
  readonly port?: number;
}

/** Returns the ends of each packet in one family: several if a host outside reaches a Service by several addresses. */
export function endsOf({ from, to, port }: EndsOfQuestion, family: Family): readonly TracedEnds[] {
  const source = addressOf(from.addresses, family);
  const usual: TraceTarget = { ip: addressOf(to.addresses, family), ...(port !== undefined && { port }) };
  const targets = to.targets?.filter(({ ip }) => ip.family === family) ?? [usual];
  return targets.map(({ ip, ...rest }) => ({ source, destination: ip, ...rest }));
}

/** @throws SeineError `INVARIANT` if there is none: the question has only families of both ends */
export function addressOf(addresses: readonly Ip[], family: Family): Ip {
  const found = addresses.find((each) => each.family === family);
  if (!found) throw new SeineError('INVARIANT', `no ${family} address`);
  return found;
}
