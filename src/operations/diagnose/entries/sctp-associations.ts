import { associationShareOf, associationShares } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { associationFlowsMax } from '../../../dataplane/targets/bridge/encoding/learn-actions.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { printMatch } from '../../../openflow/text/match-text.ts';

type FlowDump = Pick<OpenFlowConnection, 'dumpFlows'>;

/** Maximum number of SCTP associations of one sender that the bridge learns: each is two flows. */
export const associationsOfOneSender = associationFlowsMax / 2;

/** Admitted packets whose association was not learned, since the bridge has these flows. 0 on the kernel data path. */
export async function readUnlearnedAssociations(openflow: FlowDump, signal: AbortSignal): Promise<bigint> {
  let unlearned = 0n;
  await openflow.dumpFlows({ table: tables.unlearnedAssociations.id }, ({ packets }) => (unlearned += packets), signal);
  return unlearned;
}

/** Addresses of the senders whose share of the learned associations is full, sorted. Several senders may have one share. */
export async function readFullShares(openflow: FlowDump, signal: AbortSignal): Promise<readonly string[]> {
  const counts = new Map<number, number>();
  const senders = new Map<number, Set<string>>();
  await openflow.dumpFlows(
    { table: tables.associations.id },
    ({ cookie, match }) => {
      const share = associationShareOf(cookie);
      if (share === undefined) return;
      counts.set(share, (counts.get(share) ?? 0) + 1);
      const source = sourceIn(match);
      if (source !== undefined && isOfShare(source.end, share)) senders.set(share, (senders.get(share) ?? new Set()).add(source.text));
    },
    signal,
  );
  // An association whose second flow found no room leaves the share one short.
  const full = [...counts].filter(([, flows]) => flows >= associationFlowsMax - 1);
  return full.flatMap(([share]) => [...(senders.get(share) ?? [])]).toSorted();
}

function sourceIn(match: Uint8Array): { readonly text: string; readonly end: number } | undefined {
  const fields = decodeMatch(match);
  const text = printMatch(fields)
    .find((part) => /^(?:nw|ipv6)_src=/.test(part))
    ?.replace(/^\w+=/, '');
  const value = typeof fields.ip_src === 'number' ? BigInt(fields.ip_src) : fields.ipv6_src;
  return text === undefined || typeof value !== 'bigint' ? undefined : { text, end: Number(value & 0xffn) };
}

function isOfShare(end: number, share: number): boolean {
  const { pods, others } = associationShares;
  return share < pods ? end === share : end % others === share - pods;
}
