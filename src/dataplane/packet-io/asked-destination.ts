import { type Ip, ipFromValue } from '../../base/net/ip.ts';
import type { Match } from '../../openflow/match/match.ts';
import type { AskedDestination } from './refusal-frame.ts';
import { numberOf } from './repeated.ts';

/**
 * Returns the destination that the client of a tracked packet asked for: that of a Service is translated before policy decides. Undefined
 * for a packet that is not tracked.
 */
export function askedDestination(fields: Match): AskedDestination | undefined {
  const ip = addressOf(fields);
  const port = numberOf(fields.ct_tp_dst);
  return ip && { ip, ...(port > 0 && { port }) };
}

function addressOf({ ct_nw_dst: ipv4, ct_ipv6_dst: ipv6 }: Match): Ip | undefined {
  if (typeof ipv4 === 'number' && ipv4 !== 0) return ipFromValue('ipv4', BigInt(ipv4));
  return typeof ipv6 === 'bigint' && ipv6 !== 0n ? ipFromValue('ipv6', ipv6) : undefined;
}
