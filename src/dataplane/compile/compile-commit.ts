import type { Family } from '../../base/net/ip.ts';
import { ctMark, outPortToCtMark, sourceToCtMark } from '../pipeline/fields.ts';
import { type CtExec, type CtStep, type Flow, goto, type Match, priority, type Step } from '../pipeline/flow.ts';
import { zones } from '../pipeline/well-known.ts';

/**
 * Commits admitted packets. A connection to a Service was committed before that, as `barred`. No later table uses connection tracking, so
 * no packet needs another pass through the data path for it.
 */
export function commit(family: Family): Flow[] {
  const { throughService, direct } = admitting(family);
  return [throughService, direct, opensNothing(family)];
}

/**
 * Flows by which a connection becomes valid: one to a Service, which was committed before, and any other. Of the latter each packet matches
 * until there is a reply.
 */
export function admitting(family: Family): Readonly<Record<'throughService' | 'direct', Flow>> {
  const flow = (level: number, match: Match, ...exec: readonly CtExec[]): Flow => ({
    table: 'commit',
    priority: level,
    match: { payload: family, ...match },
    steps: [{ do: 'ct', zone: zones[family].main, commit: true, exec }, goto('tunnel')],
  });
  return {
    throughService: flow(
      priority.high,
      { ctState: { trk: '+' }, ctMarks: [ctMark.unadmitted('yes')] },
      { do: 'mark', mark: ctMark.unadmitted('no') },
      { do: 'moveToMark', ...outPortToCtMark },
    ),
    direct: flow(
      priority.normal,
      { ctState: { new: '+', trk: '+' }, ctMarks: [ctMark.service('no')] },
      { do: 'moveToMark', ...sourceToCtMark },
    ),
  };
}

/**
 * Flow for a reset without a known connection, e.g. from a client to an endpoint whose packet reached it untranslated while the bridge had
 * no flows. Tracked as a connection it would capture the replies of the one to the Service, whose client would not learn that the
 * connection has ended.
 */
function opensNothing(family: Family): Flow {
  const match: Match = {
    payload: family,
    protocol: 'tcp',
    tcpFlags: 'rst',
    ctState: { new: '+', trk: '+' },
    ctMarks: [ctMark.service('no')],
  };
  return { table: 'commit', priority: priority.above, match, steps: [goto('tunnel')] };
}

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
