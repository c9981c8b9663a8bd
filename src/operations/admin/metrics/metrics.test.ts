import { expect, it, vi } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { Exporter, type Sample } from './exporter.ts';
import { LoopLag } from './loop-lag.ts';
import { METRIC_PREFIX, type MetricRow, metricRows, processRows } from './metric-rows.ts';
import { AgentRecord } from './record.ts';
import { scrapeProcess } from './scrape.ts';

const rows = Object.entries<MetricRow>(metricRows);

/** Scrape with one sample of each metric, every label `x`. */
function oneOfEach(value: number): Parameters<Exporter['text']>[0] {
  const scraped = rows.filter(([, { type }]) => type !== 'histogram');
  const samples = scraped.map(([name, { labels = [] }]) => [
    name,
    [[Object.fromEntries(labels.map((label) => [label, 'x'])), value]] satisfies Sample[],
  ]);
  return { ...scrapeProcess(), ...Object.fromEntries(samples) };
}

it('exports every row under its name, with its help', async () => {
  const exporter = new Exporter();
  const text = await exporter.text(oneOfEach(3));
  for (const [name, { type, help }] of [
    ...rows.map(([name, row]) => [METRIC_PREFIX + name, row] as const),
    ...Object.entries<MetricRow>(processRows),
  ]) {
    expect(text).toContain(`# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`);
    if (type !== 'histogram') expect(text).toMatch(new RegExp(`^${name}(\\{[^}]*\\})? [0-9.e+]+$`, 'm'));
  }
  expect(exporter.contentType).toContain('version=0.0.4');
});

it("names metrics by Prometheus' conventions: counters end in total or count, times are in seconds", () => {
  for (const [name, { type, buckets = [] }] of rows) {
    expect(name).toMatch(/^[a-z][a-z0-9_]*$/);
    if (type === 'counter') expect(name).toMatch(/_(total|count)$/);
    if (type === 'histogram') expect([name.endsWith('_seconds'), buckets]).toEqual([true, buckets.toSorted((a, b) => a - b)]);
  }
});

it('drops obsolete series, and does not accumulate counters over scrapes', async () => {
  const exporter = new Exporter();
  await exporter.text(oneOfEach(3));
  const text = await exporter.text({ ...oneOfEach(4), unknown_tunnel_peer_packets: [] });
  expect(text).toContain('seine_agent_ovs_bundles_total 4\n');
  expect(text).not.toMatch(/^seine_agent_unknown_tunnel_peer_packets\{/m);
});

it('counts calls by command and code, and times ADD and DEL by stage', async () => {
  const exporter = new Exporter();
  const record = new AgentRecord((name, labels, value) => exporter.observe(name, labels, value));
  record.call({ command: 'ADD', code: 0, tookMs: 12, stages: [['wiring', 8]] });
  record.call({ command: 'ADD', code: 11, tookMs: 3, stages: [['ready', 3]] });
  record.call({ command: 'rm -rf', code: 4, tookMs: 1, stages: [['ready', 1]] });
  record.podStage('flows', 2);
  const text = await exporter.text({ ...oneOfEach(0), cni_calls_total: record.samples('cni_calls_total') });
  expect(text).toContain('seine_agent_cni_calls_total{command="ADD",code="0"} 1\n');
  expect(text).toContain('seine_agent_cni_calls_total{command="ADD",code="11"} 1\n');
  expect(text).toContain('seine_agent_cni_calls_total{command="other",code="4"} 1\n');
  expect(text).toContain('seine_agent_cni_call_duration_seconds_bucket{le="0.02",command="ADD"} 2\n');
  expect(text).toContain('seine_agent_cni_stage_duration_seconds_count{command="ADD",stage="wiring"} 1\n');
  expect(text).toContain('seine_agent_cni_stage_duration_seconds_count{command="ADD",stage="flows"} 1\n');
  expect(text).not.toContain('stage="ready",command="other"');
});

it('sums rounds and drift, keeps the last failure, and forwards all of it', () => {
  const then = { round: vi.fn(), failure: vi.fn(), refused: vi.fn(), drift: vi.fn(), repaired: vi.fn(), notInPlace: vi.fn() };
  const record = new AgentRecord(() => undefined);
  const events = record.nodeStateEvents(then);
  const error = new SeineError('UNAVAILABLE', 'gone');
  events.round('bridge', { put: 3, removed: 1, tookMs: 4 });
  events.round('bridge', { put: 2, removed: 0, tookMs: 4 });
  events.drift('host', ['a', 'b']);
  events.repaired('host', 30);
  events.failure('host', error);
  events.notInPlace?.(['seine'], error);
  expect(record.sumOf('reconcile_entries_total', { part: 'bridge', operation: 'put' })).toBe(5);
  expect(record.sumOf('reconcile_rounds_total', { part: 'bridge' })).toBe(2);
  expect([record.driftOf('host'), record.driftOf('bridge')]).toEqual([2, 0]);
  expect(record.lastOf('host')?.error).toBe(error);
  expect(Object.values(then).map((each) => each.mock.calls.length)).toEqual([2, 1, 0, 1, 1, 1]);
  expect(record.samples('firewall_replacements_total')).toEqual([[{ table: 'seine' }, 1]]);
});

it('detects a blocked event loop', () => {
  vi.useFakeTimers();
  try {
    const seen: number[] = [];
    const lag = new LoopLag();
    const stop = new AbortController();
    lag.start((_, __, value) => seen.push(value), stop.signal);
    vi.advanceTimersByTime(300);
    expect(seen).toEqual([0, 0, 0]);
    vi.setSystemTime(Date.now());
    const now = performance.now();
    const late = vi.spyOn(performance, 'now').mockReturnValue(now + 350);
    vi.advanceTimersByTime(100);
    late.mockRestore();
    expect(lag.maxMs).toBeCloseTo(250, -1);
    stop.abort();
    vi.advanceTimersByTime(1_000);
    expect(seen).toHaveLength(4);
  } finally {
    vi.useRealTimers();
  }
});
