import { type Family, type Ip, ipFromValue } from '../../../base/net/ip.ts';
import { cookieOf, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { reg } from '../../../dataplane/pipeline/fields.ts';
import type { Transport } from '../../../dataplane/pipeline/flow.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import type { Action } from '../../../openflow/actions/action.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeGroupDescriptions, type Group, writeGroupDescRequest } from '../../../openflow/groups/group.ts';
import { decodeMatch, encodeMatch, type Match } from '../../../openflow/match/match.ts';
import { endpointKey, type ServiceEndpoint } from '../../compile/service-intent.ts';
import { choosesItself, chosenEndpoint } from './chosen-endpoint.ts';
import { ipProtocols } from './stale-connections.ts';

/** Destinations for clients of one address and port, read from the bridge's flows and groups. */
export interface ServedDestination {
  readonly transport: Transport;
  readonly ip: Ip;
  readonly port: number;
  /** Endpoints for pods and the node, without duplicates. Empty where they are refused or dropped. */
  readonly inside: readonly ServiceEndpoint[];
  /** Endpoints for external clients, if they differ. */
  readonly external?: readonly ServiceEndpoint[];
}

export type ServedFlowReader = Pick<OpenFlowConnection, 'dumpFlows' | 'gather' | 'untilUp'>;

/** Mask of generation and feature. */
const FEATURE_OF_COOKIE = 0xffff_ff00_0000_0000n;
const serviceCookie = cookieOf(ownerOf('service')) & FEATURE_OF_COOKIE;
const etherTypes: Readonly<Record<Family, number>> = { ipv4: 0x0800, ipv6: 0x86dd };
const external = reg.scope('external');
/** Number of groups that are requested at a time. */
const GROUPS_AT_A_TIME = 64;

interface ServedFlow {
  readonly transport: Transport;
  readonly ip: Ip;
  readonly port: number;
  readonly isForExternal: boolean;
  readonly actions: readonly Action[];
}

/**
 * Reads what the bridge serves, for any writer: flows of this generation of the pipeline with the cookie of a Service, and their groups.
 * Before the first Service is desired, it is what the last agent served. Flows for fragments are ignored: their destinations are the same.
 *
 * @throws SeineError `UNAVAILABLE` if the connection was lost meanwhile
 */
export async function readServed(
  bridge: ServedFlowReader,
  transports: readonly Transport[],
  signal: AbortSignal,
): Promise<readonly ServedDestination[]> {
  await bridge.untilUp(signal);
  const flows: ServedFlow[] = [];
  for (const transport of transports)
    for (const family of ['ipv4', 'ipv6'] as const) {
      const match = encodeMatch({ eth_type: etherTypes[family], ip_proto: ipProtocols[transport] });
      const filter = { table: tables.balance.id, cookie: serviceCookie, cookieMask: FEATURE_OF_COOKIE, match };
      await bridge.dumpFlows(filter, (flow) => flows.push(...readFlow(flow, transport, family)), signal);
    }
  const groups = await readGroups(bridge, new Set(flows.flatMap(({ actions }) => groupsIn(actions))), signal);
  return joined(flows, groups);
}

function readFlow({ match: bytes, instructions: encoded }: FlowStats, transport: Transport, family: Family): ServedFlow[] {
  const match = decodeMatch(bytes);
  const [value, port] = [family === 'ipv4' ? match.ip_dst : match.ipv6_dst, match[`${transport}_dst`]];
  if ((typeof value !== 'number' && typeof value !== 'bigint') || typeof port !== 'number') return [];
  const { apply = [], gotoTable } = decodeInstructions(encoded);
  const actions: readonly Action[] = gotoTable === undefined ? apply : [...apply, { kind: 'resubmit', table: gotoTable }];
  return [{ transport, ip: ipFromValue(family, BigInt(value)), port, isForExternal: isForExternal(match), actions }];
}

function isForExternal({ reg4 }: Match): boolean {
  const { value, mask } = typeof reg4 === 'object' ? reg4 : { value: reg4 ?? 0, mask: reg4 === undefined ? 0 : 0xffff_ffff };
  return (mask & external.mask) >>> 0 === external.mask && (value & external.mask) >>> 0 === external.value;
}

async function readGroups(bridge: ServedFlowReader, ids: ReadonlySet<number>, signal: AbortSignal): Promise<ReadonlyMap<number, Group>> {
  const found = new Map<number, Group>();
  const waiting = [...ids];
  while (waiting.length > 0) {
    const some = waiting.splice(0, GROUPS_AT_A_TIME);
    const answers = some.map((id) => bridge.gather((w) => writeGroupDescRequest(w, id), decodeGroupDescriptions, signal));
    for (const group of (await Promise.all(answers)).flat()) found.set(group.id, group);
  }
  return found;
}

function groupsIn(actions: readonly Action[]): readonly number[] {
  return actions.flatMap((action) => (action.kind === 'group' ? [action.group] : []));
}

function joined(flows: readonly ServedFlow[], groups: ReadonlyMap<number, Group>): readonly ServedDestination[] {
  const byAddress = Map.groupBy(flows, ({ transport, ip, port }) => `${transport} ${ip.text} ${port}`);
  return [...byAddress.values()].flatMap((all): ServedDestination[] => {
    const [first] = all;
    if (first === undefined) return [];
    const { transport, ip, port } = first;
    const of = (which: readonly ServedFlow[]) => endpointsOf(which, { ip, port }, groups);
    const forExternal = all.filter(({ isForExternal }) => isForExternal);
    const inside = of(all.filter(({ isForExternal }) => !isForExternal));
    return [{ transport, ip, port, inside, ...(forExternal.length > 0 && { external: of(forExternal) }) }];
  });
}

function endpointsOf(flows: readonly ServedFlow[], address: ServiceEndpoint, groups: ReadonlyMap<number, Group>): ServiceEndpoint[] {
  const found = new Map<string, ServiceEndpoint>();
  for (const { actions } of flows) {
    const buckets = groupsIn(actions).flatMap((id) => groups.get(id)?.buckets.map((bucket) => bucket.actions) ?? []);
    for (const choice of buckets.length > 0 ? buckets : [actions]) {
      const endpoint = choosesItself(choice) ? address : chosenEndpoint(choice);
      if (endpoint !== undefined) found.set(endpointKey(endpoint), endpoint);
    }
  }
  return [...found.values()];
}
