import type { DropCounter } from '../../api/trace.ts';
import { actionsOf, type InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { cookieFeature, features } from '../../dataplane/pipeline/cookie.ts';
import { type DropName, dropNames, dropOf, drops } from '../../dataplane/pipeline/drops.ts';
import { type PipelineTableName, tableName, tables } from '../../dataplane/pipeline/tables.ts';
import type { Action } from '../../openflow/actions/action.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { FlowFilter } from '../../openflow/flows/flow-stats.ts';
import { decodeMatch } from '../../openflow/match/match.ts';

/** Position of the feature in a cookie. */
const featureBits = 40n;

/** Flows of the node itself, which have most drops, whatever the number of pods and Services. */
const ofNode: FlowFilter = { cookie: BigInt(features.node) << featureBits, cookieMask: 0xffn << featureBits };
/** Tables where flows of other owners drop as well. */
const furtherTables: readonly PipelineTableName[] = ['route', 'egressVerdict', 'ingressVerdict'];
/** Table with a flow for each address of each Service. */
const serviceTable: PipelineTableName = 'balance';

/** Tables that return to the one that visited them. */
const returning: ReadonlySet<number> = new Set(
  [...Object.values(tables).filter(({ miss }) => miss === 'return'), tables.affinity].map(({ id }) => id),
);

/**
 * Reads from OVS how many packets each named drop has counted since its flows were installed; a name without a flow is absent.
 *
 * @param services false to leave out Services without endpoints: their table may be large
 */
export async function readDrops(
  openflow: Pick<OpenFlowConnection, 'dumpFlows'>,
  { services }: { readonly services: boolean },
  signal: AbortSignal,
): Promise<ReadonlyMap<DropName, bigint>> {
  const counts = new Map<DropName, bigint>();
  const count = (flow: InstalledFlow): void => {
    const name = dropOfFlow(flow);
    if (name) counts.set(name, (counts.get(name) ?? 0n) + (flow.packets ?? 0n));
  };
  await openflow.dumpFlows(ofNode, count, signal);
  const others = (flow: InstalledFlow): void => {
    if (cookieFeature(flow.cookie) !== 'node') count(flow);
  };
  for (const table of services ? [...furtherTables, serviceTable] : furtherTables)
    await openflow.dumpFlows({ table: tables[table].id }, others, signal);
  return counts;
}

/** Returns the name of the drop of a flow; undefined if it passes packets on. */
export function dropOfFlow(flow: InstalledFlow): DropName | undefined {
  const table = tableName(flow.table);
  // Flows for probes count no dropped packets.
  if (cookieFeature(flow.cookie) === 'probe') return undefined;
  if (table === undefined || returning.has(flow.table)) return undefined;
  const { apply, gotoTable } = actionsOf(flow);
  if (gotoTable !== undefined || apply.some(passesOn)) return undefined;
  return dropOf({ table, priority: flow.priority, fields: Object.keys(decodeMatch(flow.match)) });
}

function passesOn(action: Action): boolean {
  switch (action.kind) {
    case 'output':
    case 'outputRegister':
    case 'group':
      return true;
    case 'ct':
      return action.table !== undefined;
    case 'resubmit':
      return action.table === undefined || !returning.has(action.table);
    default:
      return false;
  }
}

/** Returns every named drop with its count and its texts, in the order of the tables. */
export function dropCounters(counts: ReadonlyMap<DropName, bigint>): readonly DropCounter[] {
  return dropNames.map((name) => {
    const { table, message, cause, remedy } = drops[name];
    return { name, table, packets: (counts.get(name) ?? 0n).toString(), message, cause, remedy };
  });
}
