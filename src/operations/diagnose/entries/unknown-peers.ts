import { tables } from '../../../dataplane/pipeline/tables.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { printMatch } from '../../../openflow/text/match-text.ts';

/** Source addresses of tunnel packets that belong to no node, with their packets: flows that the switch learned. */
export async function readUnknownTunnelPeers(
  openflow: Pick<OpenFlowConnection, 'dumpFlows'>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, bigint>> {
  const found = new Map<string, bigint>();
  await openflow.dumpFlows(
    { table: tables.unknownTunnelPeers.id },
    ({ match, packets }) => {
      const source = printMatch(decodeMatch(match)).find((part) => /^tun_(?:ipv6_)?src=/.test(part));
      if (source !== undefined) found.set(source.slice(source.indexOf('=') + 1), packets);
    },
    signal,
  );
  return found;
}
