import { nodeMeters, refusalMeters } from '../../../dataplane/pipeline/well-known.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';

/**
 * Returns the number of denied packets whose senders got no answer because the meters of OVS stopped their copies: those of a share of
 * senders, and that of the node. OVS counts from 0 again when it starts.
 *
 * @throws SeineError as for `OpenFlowConnection.dumpMeterStats`
 */
export async function readMeteredRefusals(openflow: Pick<OpenFlowConnection, 'dumpMeterStats'>, signal: AbortSignal): Promise<number> {
  const { first, count } = refusalMeters;
  let metered = 0;
  for (const { id, bands } of await openflow.dumpMeterStats(signal))
    if (id === nodeMeters.refusals || (id >= first && id < first + count)) metered += Number(bands[0]?.packets ?? 0n);
  return metered;
}
