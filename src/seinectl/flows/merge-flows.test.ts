import { describe, expect, it } from 'vitest';
import type { FlowView } from '../../api/flow-log.ts';
import { plain } from '../paint.ts';
import { flowLine, lossLines } from './flow-lines.ts';
import { dueFlows, mergeFlows } from './merge-flows.ts';

const atSource: FlowView = {
  node: 'node-1',
  number: 7,
  time: '2026-11-29T14:02:12.010Z',
  event: 'opened',
  verdict: 'allowed',
  reporter: 'source',
  family: 'ipv4',
  protocol: 'TCP',
  source: { address: '10.0.0.5', port: 51_514, kind: 'pod', namespace: 'shop', name: 'api-2', workload: 'api' },
  destination: { address: '10.0.1.9', port: 5_432, kind: 'unknown' },
  service: { address: '10.96.0.20', port: 5_432, namespace: 'shop', name: 'db' },
  egress: { verdict: 'allowed', by: [] },
};
const { service: _, egress: __, ...seen } = atSource;
const atDestination: FlowView = {
  ...seen,
  node: 'node-2',
  number: 3,
  time: '2026-11-29T14:02:11.990Z',
  reporter: 'destination',
  destination: { ...atSource.destination, kind: 'pod', namespace: 'shop', name: 'db-0' },
  ingress: { verdict: 'allowed', by: ['shop/db-clients spec.ingress[0]'] },
};

describe('records of two nodes', () => {
  it('are one line with the names and decisions of both, in any order', () => {
    for (const flows of [
      [atSource, atDestination],
      [atDestination, atSource],
    ]) {
      const [merged, ...more] = mergeFlows(flows);
      if (!merged) throw new Error('nothing');
      expect(more).toEqual([]);
      expect(merged).toMatchObject({
        reporter: 'both',
        nodes: ['node-1', 'node-2'],
        egress: atSource.egress,
        ingress: atDestination.ingress,
      });
      expect(flowLine(merged, plain, false)).toBe(
        '14:02:11.990 opened  shop/api-2:51514 -> shop/db-0:5432 TCP (service shop/db)  ingress: shop/db-clients spec.ingress[0]  node-1 and node-2',
      );
    }
  });

  it('are a denied connection if the receiver denies what the sender may open', () => {
    const denied: FlowView = {
      ...atDestination,
      event: 'denied',
      verdict: 'denied',
      reason: 'no rule',
      ingress: { verdict: 'denied', by: ['shop/closed'] },
      repeated: 3,
    };
    const [merged, ...more] = mergeFlows([{ ...atSource, repeated: 1 }, denied]);
    expect(more).toEqual([]);
    expect(merged).toMatchObject({
      repeated: 3,
      event: 'denied',
      verdict: 'denied',
      reason: 'no rule',
      egress: atSource.egress,
      ingress: denied.ingress,
    });
  });

  it('have the counters of one of them, marked if they are an estimate', () => {
    const bytes = { out: '2100', in: '9000' };
    const ended = { event: 'closed', startedAt: '2026-11-29T14:02:11.000Z', endedAt: '2026-11-29T14:02:11.800Z' } as const;
    const lineOf = (one: Partial<FlowView>, other: Partial<FlowView>): string => {
      const [merged] = mergeFlows([
        { ...atSource, ...ended, ...one },
        { ...atDestination, ...ended, ...other },
      ]);
      return merged ? flowLine(merged, plain, false).replace(/^.*ingress: \S+ \S+ {2}/, '') : '';
    };
    const estimate = { bytes, estimated: true } as const;
    expect(lineOf(estimate, estimate)).toBe('0.8 s  about 2.1 kB out, 9.0 kB in (estimated)  node-1 and node-2');
    expect(lineOf({}, estimate)).toBe(lineOf(estimate, {}));
    const exact = { bytes, packets: { out: '14', in: '11' } };
    expect(lineOf(exact, estimate)).toBe('0.8 s  14 packets 2.1 kB out, 11 packets 9.0 kB in  node-1 and node-2');
  });

  it('are not joined if they are of one node, of one end, of other ports, or too far apart', () => {
    const other: readonly FlowView[] = [
      { ...atDestination, node: 'node-1' },
      { ...atDestination, reporter: 'source' },
      { ...atDestination, source: { ...atSource.source, port: 1 } },
      { ...atDestination, time: '2026-11-29T14:02:15.000Z' },
      { ...atDestination, event: 'closed' },
    ];
    for (const each of other) expect(mergeFlows([atSource, each])).toHaveLength(2);
  });

  it('of equal connections are joined in pairs', () => {
    const again = (flow: FlowView, number: number): FlowView => ({ ...flow, number });
    expect(mergeFlows([atSource, atDestination, again(atSource, 8), again(atDestination, 4)]).map(({ nodes }) => nodes.length)).toEqual([
      2, 2,
    ]);
  });
});

describe('a line', () => {
  it('names the policy that denied, and escapes what comes from nodes', () => {
    const denied: FlowView = {
      ...atDestination,
      event: 'denied',
      verdict: 'denied',
      destination: { ...atDestination.destination, name: 'db-0\u001b[2J' },
      ingress: { verdict: 'denied', by: ['shop/default-deny'] },
      reason: 'no rule of spec.ingress allows it',
      repeated: 2,
    };
    const [merged] = mergeFlows([denied]);
    expect(merged && flowLine(merged, plain, false)).toBe(
      '14:02:11.990 denied  shop/api-2:51514 -> shop/db-0\\u001b[2J:5432 TCP  ingress: shop/default-deny  no rule of spec.ingress allows it  and 2 more packets  node-2',
    );
  });

  it('shows time and counters of a closed connection', () => {
    const closed: FlowView = {
      ...atSource,
      event: 'closed',
      packets: { out: '14', in: '11' },
      bytes: { out: '2100', in: '9000' },
      startedAt: '2026-11-29T14:02:12.010Z',
      endedAt: '2026-11-29T14:02:12.810Z',
    };
    const [merged] = mergeFlows([closed]);
    expect(merged && flowLine(merged, plain, false)).toContain('0.8 s  14 packets 2.1 kB out, 11 packets 9.0 kB in  node-1');
  });

  it('reports each kind of loss', () => {
    const losses = { sampling: 0, meter: 412, rate: 0, queue: 1, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };
    expect(lossLines({ node: 'node-3', enabled: true, sources: [], losses, skipped: 5 })).toEqual([
      '(node-3: 412 openings not recorded: beyond the rate of their pod)',
      '(node-3: 1 openings not recorded: OVS could not pass them on)',
      '(node-3: 5 records skipped: too many for this reader)',
    ]);
    expect(lossLines({ node: 'node-3', enabled: false, sources: [], losses, skipped: 0 })).toEqual([
      '(node-3: the flow log is off; flowLog.enabled turns it on)',
    ]);
  });
});

it('lets a record wait one round for that of the other node, and no other record', () => {
  const here: FlowView = { ...atSource, number: 8, reporter: 'both' };
  const outside: FlowView = { ...atSource, number: 9, destination: { address: '198.51.100.7', port: 443, kind: 'outside' } };
  expect(dueFlows([], [atSource, here, outside])).toEqual({ due: [here, outside], later: [atSource] });
  expect(dueFlows([atSource], [atDestination])).toEqual({ due: [atSource, atDestination], later: [] });
  expect(dueFlows([atSource], [])).toEqual({ due: [atSource], later: [] });
  expect(dueFlows([], [atSource, atDestination])).toEqual({ due: [atSource, atDestination], later: [] });
});
