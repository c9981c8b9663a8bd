import { nothing, type Wanted } from '../desired/host-entries.ts';
import type { Owner } from '../pipeline/cookie.ts';
import { goto, meter, priority } from '../pipeline/flow.ts';
import { openingsMeters, podOfPorts } from '../pipeline/well-known.ts';
import type { SubjectIntent } from './compile-entry.ts';

/**
 * Compiles the meter of connections that a pod with isolated egress opens to Services. Such a connection is tracked when its endpoint is
 * chosen, which is before any denial: a denied pod that keeps trying would fill the connection table. The number of its entries is at most
 * the rate times their lifetime. Pure.
 *
 * A separate owner: OVS without meters must not refuse the pod's other flows. No ADD waits for it.
 */
export function compileOpenings({ ofPort, egress, openings }: SubjectIntent): Wanted {
  if (egress === undefined || openings === undefined) return nothing;
  const id = openingsMeters.first + ofPort - podOfPorts.first;
  return {
    ...nothing,
    meters: [{ id, unit: 'packets', rate: openings, burst: openings }],
    flows: [{ table: 'openings', priority: priority.normal, match: { inPort: ofPort }, steps: [meter(id), goto('sourceRanges')] }],
  };
}

/** @param subject owner of the flows in the entry tables */
export function openingsOwner(subject: Owner): Owner {
  return `${subject}#openings` as Owner;
}
