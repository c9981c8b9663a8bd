import { learnedCookie, learnedCookieMask, learnedCookieOf, type Owner } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { affinityClientsMax } from '../../../dataplane/targets/bridge/encoding/learn-actions.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';

export type AffinityReader = Pick<OpenFlowConnection, 'aggregate' | 'dumpFlows'>;

/** Clients that the bridge remembers for session affinity. */
interface AffinityUse {
  /** Number of clients of all Service ports. */
  readonly clients: number;
  /** Cookies of the ports that remember the maximum number of clients. */
  readonly full: ReadonlySet<bigint>;
}

/** Counts the remembered clients. Reads them one by one only if there are enough to fill a port's share. */
export async function readAffinityUse(openflow: AffinityReader, signal: AbortSignal): Promise<AffinityUse> {
  const table = tables.affinity.id;
  const learned = { table, cookie: learnedCookie, cookieMask: learnedCookieMask };
  const all = await openflow.aggregate(learned, signal);
  // Flows of fragments have no owner.
  const fragments = await openflow.aggregate({ table, cookie: learnedCookie, cookieMask: 0xffff_ffff_ffff_ffffn }, signal);
  const clients = Math.max(0, all.flows - fragments.flows);
  if (clients < affinityClientsMax) return { clients, full: new Set() };
  const counts = new Map<bigint, number>();
  await openflow.dumpFlows(learned, ({ cookie }) => void counts.set(cookie, (counts.get(cookie) ?? 0) + 1), signal);
  counts.delete(learnedCookie);
  return { clients, full: new Set([...counts].filter(([, count]) => count >= affinityClientsMax).map(([cookie]) => cookie)) };
}

/** Returns those of the Service ports that remember the maximum number of clients. */
export async function readFullAffinities(openflow: AffinityReader, ports: () => Iterable<Owner>, signal: AbortSignal): Promise<Owner[]> {
  const { full } = await readAffinityUse(openflow, signal);
  return full.size === 0 ? [] : [...ports()].filter((owner) => full.has(learnedCookieOf(owner)));
}
