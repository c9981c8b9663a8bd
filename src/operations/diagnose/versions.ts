import { abortable } from '../../base/async/abortable.ts';
import { within } from '../../base/async/time-limit.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { decodeDescription, writeDescriptionRequest } from '../../openflow/switch-description.ts';

/** A switch that takes longer is in trouble, and status is about to say so (ms). */
const PATIENCE_MS = 500;

/** The version that ovs-vswitchd says it is; undefined if it does not answer within `patienceMs`. */
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
    return undefined; // not connected: the status says so elsewhere
  }
}
