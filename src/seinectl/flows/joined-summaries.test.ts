import { describe, expect, it } from 'vitest';
import type { FlowSummaries, FlowSummary } from '../../api/flow-log.ts';
import { joinedSummaries } from './joined-summaries.ts';

const pair = { source: 'shop/web', destination: 'shop/db', protocol: 'TCP', port: 80 } as const;
const sent: FlowSummary = { ...pair, reporter: 'source', service: 'shop/db', verdict: 'allowed', connections: 5 };
const received: FlowSummary = {
  ...pair,
  reporter: 'destination',
  verdict: 'allowed',
  rule: 'shop/db-clients spec.ingress[0]',
  connections: 5,
};
const denied: FlowSummary = { ...pair, reporter: 'destination', verdict: 'denied', rule: 'shop/default-deny', connections: 2 };

const losses = { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };

function joined(nodes: readonly (readonly FlowSummary[])[], namespace?: string): readonly FlowSummary[] {
  const answers = nodes.map((items, at): FlowSummaries => {
    const state = { node: `node-${at}`, enabled: true, sources: [], losses, skipped: 0 };
    return { state, since: '2026-11-29T14:00:00Z', items, others: 0 };
  });
  return joinedSummaries(answers, namespace);
}

describe('sums of several nodes', () => {
  it('count a connection once, with the Service of the source and the rule of the destination', () => {
    const { reporter: _, ...row } = { ...received, service: 'shop/db' };
    expect(joined([[sent], [{ ...received, bytes: '10' }]])).toEqual([{ ...row, bytes: '10' }]);
    expect(joined([[{ ...sent, connections: 4 }], [received]])).toEqual([row]);
    expect(joined([[sent], [{ ...received, connections: 4 }]])).toEqual([row]);
  });

  it('do not call a connection allowed that the destination denied', () => {
    const row = { ...pair, service: 'shop/db', verdict: 'denied', rule: 'shop/default-deny', connections: 2 };
    expect(joined([[{ ...sent, connections: 2 }], [denied]])).toEqual([row]);
    const allowed = { ...pair, service: 'shop/db', verdict: 'allowed', rule: 'shop/db-clients spec.ingress[0]', connections: 5 };
    expect(joined([[{ ...sent, connections: 7 }], [denied, received]])).toEqual([allowed, row]);
  });

  it('keep what the source denied, and what only one node knows', () => {
    const own: FlowSummary = { ...pair, reporter: 'source', verdict: 'denied', rule: 'shop/no-egress', connections: 3 };
    const { reporter: _, ...row } = own;
    expect(joined([[own]])).toEqual([row]);
    expect(joined([[{ ...sent, destination: 'outside' }]])).toMatchObject([{ destination: 'outside', connections: 5 }]);
    expect(joined([[], [denied]])).toMatchObject([{ verdict: 'denied', connections: 2 }]);
  });

  it('add up the nodes of a workload', () => {
    expect(joined([[sent], [sent], [{ ...received, connections: 10 }]])).toMatchObject([{ connections: 10, service: 'shop/db' }]);
  });

  it('show only what concerns a namespace', () => {
    const other: FlowSummary = { ...sent, source: 'ops/x', destination: 'outside' };
    expect(joined([[sent, other]], 'shop')).toHaveLength(1);
  });
});
