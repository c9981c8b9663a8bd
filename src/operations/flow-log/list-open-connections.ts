import type { OpenConnections, OpenConnectionsView } from '../../api/open-connections.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { livingEnds } from '../../policy/denied-log/open-connections.ts';
import type { NodeServices } from '../../services/controller/open-services.ts';

export interface OpenConnectionsPort {
  readonly config: { readonly nodeName: string; readonly ovsDatapathType: 'system' | 'netdev' };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly proxy: { readonly tracked: Pick<NodeServices['tracked'], 'list'> } };
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
}

/** Maximum number of different pairs of ends and ports in an answer. */
const ITEMS_MAX = 16_384;

/**
 * `GET /v1/open-connections`: admitted connections through the bridge that are open, idle ones included, by their ends. The kernel's tracker
 * is read in slices for each request.
 *
 * @throws SeineError if the tracker cannot be read
 */
export async function listOpenConnections({ config, running, turns }: OpenConnectionsPort): Promise<OpenConnectionsView> {
  if (config.ovsDatapathType !== 'system') return { node: config.nodeName, tracker: 'not listed', items: [], others: 0 };
  const counts = new Map<string, { readonly ends: Omit<OpenConnections, 'connections'>; connections: number }>();
  let others = 0;
  for (const connection of await running().proxy.tracked.list(['tcp', 'udp', 'sctp'])) {
    if (turns.due) await turns.next();
    const ends = livingEnds(connection);
    if (!ends) continue;
    const key = JSON.stringify(ends);
    const known = counts.get(key);
    if (known) known.connections++;
    else if (counts.size < ITEMS_MAX) counts.set(key, { ends, connections: 1 });
    else others++;
  }
  const items = [...counts.values()].map(({ ends, connections }): OpenConnections => ({ ...ends, connections }));
  return { node: config.nodeName, tracker: 'kernel', items, others };
}
