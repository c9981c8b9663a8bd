import { abortable } from '../../base/async/abortable.ts';
import { within } from '../../base/async/time-limit.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { decodeDescription, writeDescriptionRequest } from '../../openflow/switch-description.ts';

/** Maximum time for an answer (ms); if ovs-vswitchd takes longer, status reports a problem anyway. */
const PATIENCE_MS = 500;

/** Version that ovs-vswitchd reports; undefined if it does not answer within `patienceMs`. */
export async function ovsVersion(
  openflow: OpenFlowConnection,
  signal: AbortSignal,
  patienceMs: number = PATIENCE_MS,
): Promise<string | undefined> {
  const patience = within(signal, patienceMs);
  try {
    const [description] = await abortable(openflow.gather(writeDescriptionRequest, decodeDescription, patience), patience);
    return description?.software;
  } catch {
    return undefined; // not connected: the status reports it elsewhere
  }
}
