import { within } from '../../../base/async/time-limit.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { readAffinityUse } from '../../diagnose/entries/affinity-clients.ts';
import { readMeteredRefusals } from '../../diagnose/entries/refusal-meters.ts';
import { readUnlearnedAssociations } from '../../diagnose/entries/sctp-associations.ts';
import { readUnknownTunnelPeers } from '../../diagnose/entries/unknown-peers.ts';
import type { Sample } from './exporter.ts';

/* Samples that are read from OVS when they are requested. Where OVS does not answer, other metrics report it. */

/** Maximum number of addresses that are counted separately; OVS remembers no more either. */
const UNKNOWN_PEERS_MAX = 256;
/** Maximum time for an answer of OVS (ms). */
const PATIENCE_MS = 1_000;

const single = (value: number): readonly Sample[] => [[{}, value]];

/** No samples if OVS does not answer now. */
export async function unknownTunnelPeers(openflow: OpenFlowConnection, signal: AbortSignal): Promise<Sample[]> {
  const patience = within(signal, PATIENCE_MS);
  // Not connected: other metrics report it.
  const found = await readUnknownTunnelPeers(openflow, patience).catch((): ReadonlyMap<string, bigint> => new Map());
  return [...found].slice(0, UNKNOWN_PEERS_MAX).map(([address, packets]): Sample => [{ address }, Number(packets)]);
}

/** No samples if OVS does not answer now. */
export async function unlearnedAssociations(openflow: OpenFlowConnection, signal: AbortSignal): Promise<readonly Sample[]> {
  const patience = within(signal, PATIENCE_MS);
  // Not connected: other metrics report it.
  return await readUnlearnedAssociations(openflow, patience).then(
    (packets) => single(Number(packets)),
    () => [],
  );
}

/** No sample if OVS does not answer now. */
export async function meteredRefusals(openflow: OpenFlowConnection, signal: AbortSignal): Promise<readonly Sample[]> {
  return await readMeteredRefusals(openflow, within(signal, PATIENCE_MS)).then(
    (packets) => [[{ result: 'metered' }, packets]],
    () => [],
  );
}

/** No samples if OVS does not answer now. */
export async function affinities(openflow: OpenFlowConnection, signal: AbortSignal) {
  const patience = within(signal, PATIENCE_MS);
  return await readAffinityUse(openflow, patience).then(
    ({ clients, full }) => ({ service_affinity_clients: single(clients), service_affinity_full_ports: single(full.size) }),
    () => ({ service_affinity_clients: [], service_affinity_full_ports: [] }),
  );
}
