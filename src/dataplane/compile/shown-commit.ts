import { ctMark } from '../pipeline/fields.ts';
import type { CtStep, Step } from '../pipeline/flow.ts';

/**
 * Commits a packet such that it has the connection's mark in the next table, for any previous mark.
 *
 * The kernel's data path gives a packet the mark that a commit writes only if that commit changes the connection's mark. If a new socket
 * sends two packets at once, the second may write the same mark as the first, and would keep the mark of its own lookup: none. So a bit of
 * the mark is set and cleared again, by two actions of one packet. Only a packet of the same connection that another CPU processes between
 * the two may still keep the mark of its own lookup. Source: Linux 6.1 net/openvswitch/conntrack.c `ovs_ct_set_mark`.
 */
export function shownCommit({ exec, next, ...commit }: Omit<CtStep, 'nat' | 'do' | 'commit'>): readonly Step[] {
  const step = { do: 'ct', commit: true, ...commit } as const;
  const touch = (value: 'yes' | 'no') => ({ do: 'mark', mark: ctMark.touched(value) }) as const;
  return [
    { ...step, exec: [...exec, touch('yes')] },
    { ...step, ...(next && { next }), exec: [touch('no')] },
  ];
}
