import { ctMark } from '../pipeline/fields.ts';
import type { CtStep, Step } from '../pipeline/flow.ts';

/**
 * Commits a packet, so that it has the connection's mark in the next table whatever the mark was before.
 *
 * The kernel's data path gives a packet the mark that a commit writes only if that commit changes the connection's mark. Of two packets that a new
 * socket sends at once, the second may write what the first has written already, and would have the mark of its own lookup afterwards: none. So
 * a bit of the mark is set and cleared again, by two actions between which no other packet comes.
 * Source: Linux 6.1 net/openvswitch/conntrack.c `ovs_ct_set_mark`.
 */
export function shownCommit({ exec, next, ...commit }: Omit<CtStep, 'nat' | 'do' | 'commit'>): readonly Step[] {
  const step = { do: 'ct', commit: true, ...commit } as const;
  const touch = (value: 'yes' | 'no') => ({ do: 'mark', mark: ctMark.touched(value) }) as const;
  return [
    { ...step, exec: [...exec, touch('yes')] },
    { ...step, ...(next && { next }), exec: [touch('no')] },
  ];
}
