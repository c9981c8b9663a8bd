import { describe, expect, it } from 'vitest';
import type { FlowSummaries, FlowSummary } from '../../api/flow-log.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { trafficOf, trafficQuestion } from './traffic-answer.ts';

const noLosses = { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };
const nowMs = Date.parse('2026-11-29T14:10:00Z');

const pair = (source: string, destination: string, connections: number, more: Partial<FlowSummary> = {}): FlowSummary => ({
  ...{ source, destination, protocol: 'TCP', port: 80, verdict: 'allowed', connections, reporter: 'both' },
  ...more,
});
const sums = (items: readonly FlowSummary[], state: object = {}, others = 0): FlowSummaries => ({
  state: { node: 'n', enabled: true, sources: [], losses: noLosses, skipped: 0, ...state },
  since: '2026-11-29T14:00:00Z',
  items,
  others,
});
const pod = (at: number) => ({ node: `node-${at}`, pod: `agent-${at}` }) as AgentPod;

function traffic(nodes: readonly (FlowSummaries | string)[], query: Readonly<Record<string, string>> = {}) {
  const rows = nodes.flatMap((answer, at) => (typeof answer === 'string' ? [] : [{ pod: pod(at), answer }]));
  const failures = nodes.flatMap((failure, at) => (typeof failure === 'string' ? [{ pod: pod(at), failure }] : []));
  const fleet = { pods: nodes.map((_, at) => pod(at)), without: [] };
  return trafficOf(trafficQuestion(new URLSearchParams(query)), { rows, failures, fleet }, nowMs);
}

describe('the matrix of namespaces', () => {
  it('adds up workloads, and counts what was denied or refused', () => {
    const denied = { verdict: 'denied', rule: 'data/deny' } as const;
    const { matrix, namespace } = traffic([
      sums([pair('shop/web', 'data/db', 5), pair('shop/api', 'data/db', 2, denied), pair('outside', 'shop/web', 9)]),
      sums([pair('node node-1', 'data/db', 1, { verdict: 'refused' }), pair('shop/api', 'data/db', 1, { verdict: 'would-deny' })]),
    ]);
    expect(matrix.parties).toEqual(['shop', '(outside)', 'data', '(nodes)']);
    expect(matrix.cells).toEqual([
      { from: '(outside)', to: 'shop', connections: 9, denied: 0 },
      { from: 'shop', to: 'data', connections: 8, denied: 2 },
      { from: '(nodes)', to: 'data', connections: 1, denied: 1 },
    ]);
    expect(namespace).toBeNull();
  });

  it('counts a connection within a namespace once', () => {
    expect(traffic([sums([pair('a/x', 'a/y', 3), pair('b/x', 'c/y', 4)])]).matrix.parties).toEqual(['b', 'c', 'a']);
  });

  it('has the 40 busiest namespaces, and the rest as others: no connection is lost', () => {
    const items = Array.from({ length: 100 }, (_, at) => pair(`ns-${at}/a`, `ns-${at}/b`, at + 1));
    const { matrix } = traffic([sums(items)]);
    expect([matrix.parties.length, matrix.parties[0], matrix.parties.at(-1)]).toEqual([41, 'ns-99', '(60 others)']);
    expect(matrix.cells.filter(({ from, to }) => !matrix.parties.includes(from) || !matrix.parties.includes(to))).toEqual([]);
    expect(matrix.cells.reduce((sum, { connections }) => sum + connections, 0)).toBe(5_050);
  });
});

describe('the traffic of a namespace', () => {
  it('has an edge for each port, verdict and rule, with callers and callees of other namespaces', () => {
    const rule = 'shop/db-clients spec.ingress[0]';
    const items = [pair('web/a', 'shop/db', 3, { rule, bytes: '12' }), pair('web/a', 'shop/db', 1, { verdict: 'denied' })];
    const { namespace } = traffic([sums([...items, pair('shop/db', 'outside', 2), pair('web/a', 'data/x', 7)])], { namespace: 'shop' });
    expect(namespace?.parties).toEqual(['shop/db', 'web/a', 'outside']);
    expect(namespace?.edges).toEqual([
      { source: 'web/a', destination: 'shop/db', protocol: 'TCP', port: 80, verdict: 'allowed', rule, connections: 3, bytes: '12' },
      { source: 'shop/db', destination: 'outside', protocol: 'TCP', port: 80, verdict: 'allowed', connections: 2 },
      { source: 'web/a', destination: 'shop/db', protocol: 'TCP', port: 80, verdict: 'denied', connections: 1 },
    ]);
  });

  it('has at most 80 workloads and 200 edges; the rest is counted, and can be found by name', () => {
    const items = Array.from({ length: 400 }, (_, at) => pair(`web/w-${at % 120}`, 'shop/db', 400 - at, { port: at + 1 }));
    const { namespace } = traffic([sums(items)], { namespace: 'shop' });
    expect([namespace?.parties.length, namespace?.parties.at(-1)]).toEqual([81, '(41 others)']);
    expect([namespace?.edges.length, namespace?.moreEdges]).toEqual([200, 200]);
    expect(new Set(namespace?.edges.flatMap(({ source, destination }) => [source, destination]))).toEqual(new Set(namespace?.parties));
    const shown = namespace?.edges.reduce((sum, { connections }) => sum + connections, 0) ?? 0;
    expect(shown + (namespace?.moreConnections ?? 0)).toBe(80_200);
    const found = traffic([sums(items)], { namespace: 'shop', find: 'w-119' }).namespace;
    expect(found?.parties).toEqual(['shop/db', 'web/w-119']);
  });

  it('does not take a namespace for another with the same beginning', () => {
    expect(traffic([sums([pair('shop-2/a', 'x/b', 1)])], { namespace: 'shop' }).namespace?.edges).toEqual([]);
  });
});

describe('the time in which connections were counted', () => {
  const seconds = (...nodes: Parameters<typeof traffic>[0]) => traffic(nodes, { for: '10m' }).countedSeconds;

  it('begins with the whole minute of the period', () => {
    expect(seconds(sums([]), sums([], { completeFrom: '2026-11-29T13:00:00Z' }))).toBe(600);
  });

  it('begins with the first log that was turned on, and is never longer than the period and a minute', () => {
    expect(seconds(sums([], { completeFrom: '2026-11-29T14:09:00Z' }), sums([], { completeFrom: '2026-11-29T14:08:00Z' }))).toBe(120);
    expect(seconds({ ...sums([]), since: '2026-11-29T01:00:00Z' })).toBe(660);
    expect(seconds(sums([], { completeFrom: '2026-11-29T14:10:00Z' }))).toBe(1);
    expect(seconds()).toBe(1);
  });
});

describe('what the answer lacks', () => {
  it('is nodes whose log is off, agents without an answer, losses, and connections without names', () => {
    const answer = traffic([
      sums([], { enabled: false }),
      sums([pair('a/b', 'a/c', 1)], { losses: { ...noLosses, rate: 7 }, completeFrom: '2026-11-29T14:08:00Z' }, 4),
      sums([], { losses: { ...noLosses, rate: 5 }, completeFrom: '2026-11-29T14:00:00Z' }),
      'no agent answers on node-3',
    ]);
    expect(answer).toMatchObject({
      ...{ agents: 4, asked: 4, answered: 3, unnamed: 4, completeFrom: '2026-11-29T14:08:00.000Z' },
      off: { count: 1, nodes: ['node-0'] },
      silent: [{ text: 'no agent answers on NODE', nodes: ['node-3'] }],
      losses: [{ text: 'openings not recorded: beyond the rate of the node', count: 12 }],
    });
    expect(traffic([sums([], { completeFrom: '2026-11-29T14:00:00Z' })]).completeFrom).toBeNull();
  });
});

it.each([
  [{ for: '2h' }, 'for: "2h" is not a duration from 1s to 1h'],
  [{ for: 'x' }, 'for: "x" is not'],
  [{ first: '-1' }, 'first: "-1" is not a whole number'],
])('refuses the question %j', (query, message) => {
  expect(() => trafficQuestion(new URLSearchParams(query as Record<string, string>))).toThrow(message);
});
