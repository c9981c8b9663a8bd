import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { type Family, type Ip, ipFromValue } from '../../../base/net/ip.ts';
import { reg } from '../../../dataplane/pipeline/fields.ts';
import { writeFlowMod } from '../../../openflow/flows/flow-mod.ts';
import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch, type Match } from '../../../openflow/match/match.ts';
import type { LearnedChoice } from '../../compile/learned-choice.ts';
import { endpointKey } from '../../compile/service-intent.ts';
import { chosenEndpoint } from './chosen-endpoint.ts';

const byGateway = reg.source('gateway');

/** @returns undefined for a flow that does not have the shape of a choice of an endpoint */
export function readLearnedFlow(flow: Pick<FlowStats, 'match' | 'instructions'>): LearnedChoice | undefined {
  const match = decodeMatch(flow.match);
  const [client, address] = [sourceOf(match), destinationOf(match)];
  const port = match.tcp_dst ?? match.udp_dst ?? match.sctp_dst;
  const endpoint = chosenEndpoint(decodeInstructions(flow.instructions).apply ?? []);
  if (client === undefined || address === undefined || typeof port !== 'number' || endpoint === undefined) return undefined;
  const { reg0 } = match;
  const source = typeof reg0 === 'object' ? reg0.value : reg0;
  return { client, address, port, endpoint: endpointKey(endpoint), byGateway: ((source ?? 0) & byGateway.mask) >>> 0 === byGateway.value };
}

export function strictDelete({ table, priority, match }: Pick<FlowStats, 'table' | 'priority' | 'match'>): Uint8Array {
  const w = new ByteWriter(128);
  writeFlowMod(w, { command: 'deleteStrict', table, priority, match, instructions: new Uint8Array(0) });
  return w.finish();
}

/**
 * Returns a flow-mod for the same choice with another idle timeout (s), 0 for none. It replaces the flow, whose idle time starts at zero.
 */
export function withIdleTimeout(flow: FlowStats, idleTimeout: number): Uint8Array {
  const { table, priority, cookie, hardTimeout, flags, importance, match, instructions } = flow;
  const w = new ByteWriter(256);
  writeFlowMod(w, { command: 'add', table, priority, cookie, idleTimeout, hardTimeout, flags, importance, match, instructions });
  return w.finish();
}

function sourceOf({ ip_src: ipv4, ipv6_src: ipv6 }: Match): Ip | undefined {
  return whole('ipv4', ipv4) ?? whole('ipv6', ipv6);
}

function destinationOf({ ip_dst: ipv4, ipv6_dst: ipv6 }: Match): Ip | undefined {
  return whole('ipv4', ipv4) ?? whole('ipv6', ipv6);
}

function whole(family: Family, value: unknown): Ip | undefined {
  return typeof value === 'number' || typeof value === 'bigint' ? ipFromValue(family, BigInt(value)) : undefined;
}
