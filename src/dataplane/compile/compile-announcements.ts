import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { type Flow, meter, priority } from '../pipeline/flow.ts';
import { announcementMeters } from '../pipeline/well-known.ts';

/** Owner of the meters, and of the flows that use them. */
export const announcementsOwner: Owner = ownerOf('node', 'announcements');

/** Packets a second, and at once: a pod that starts or takes over an address announces it a few times. */
const flooded = { rate: 10, burst: 20 } as const;

/** Floods what pods announce. The flow without a meter holds until the switch has taken the meters, and on one that has none. */
export const announcing: Flow = { table: 'announcements', priority: priority.lowest, match: {}, steps: [{ do: 'normal' }] };

/**
 * Meters for what pods announce of their own addresses. Each frame goes to every port of the bridge, so that one pod that floods would delay all others.
 * Pods share a meter where the last six bits of their MACs are equal.
 *
 * An owner of its own: a switch that has no meters must not refuse the node's other flows. Pure.
 */
export function compileAnnouncements(): Wanted {
  const { first, count } = announcementMeters;
  const all = Array.from({ length: count }, (_, value) => ({ value, id: first + value }));
  return {
    ...nothing,
    meters: all.map(({ id }) => ({ id, unit: 'packets', ...flooded })),
    flows: all.map(({ id, value }) => ({
      table: 'announcements',
      priority: priority.normal,
      match: { ethSrcEnd: { value, mask: count - 1 } },
      steps: [meter(id), { do: 'normal' }],
    })),
  };
}
