import { nothing, type Wanted } from '../desired/host-entries.ts';
import type { Owner } from '../pipeline/cookie.ts';
import { goto, meter, priority } from '../pipeline/flow.ts';
import { openingsMeters, podOfPorts } from '../pipeline/well-known.ts';
import type { SubjectIntent } from './compile-entry.ts';

/**
 * The meter of what a pod that policy isolates in egress opens to Services: such a connection is tracked when its endpoint is chosen, which is before anybody
 * denies it, and a denied pod that goes on trying would fill the tracker. Its rate times the life of an entry is the bound. Pure.
 *
 * An owner of its own, for a switch that takes no meters must not refuse what holds for the pod; and no ADD waits for it.
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

/** @param subject whose flows in the entry tables are */
export function openingsOwner(subject: Owner): Owner {
  return `${subject}#openings` as Owner;
}
