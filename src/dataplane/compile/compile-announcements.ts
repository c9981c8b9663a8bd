import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { type Flow, meter, priority } from '../pipeline/flow.ts';
import { announcementMeters } from '../pipeline/well-known.ts';

/** Owner of the meters, and of the flows that use them. */
export const announcementsOwner: Owner = ownerOf('node', 'announcements');

/** Packets per second, and burst: a pod that starts or takes over an address announces it a few times. */
const flooded = { rate: 10, burst: 20 } as const;

/** Flow that floods pods' announcements without a meter. It applies until the meters are installed, and on a bridge without meters. */
export const announcing: Flow = { table: 'announcements', priority: priority.lowest, match: {}, steps: [{ do: 'normal' }] };

/**
 * Compiles meters for pods' announcements of their own addresses. Each frame is sent to every port of the bridge, so one pod that floods
 * would delay all others. Pods whose MACs have the same last six bits share a meter.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Pure.
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
