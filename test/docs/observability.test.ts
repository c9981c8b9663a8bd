import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { METRIC_PREFIX, type MetricRow, metricRows, processRows } from '../../src/operations/admin/metrics/metric-rows.ts';
import { alertRules, dashboard, expressions } from '../support/observability.ts';
import { readPromql } from '../support/promql.ts';

const root = join(import.meta.dirname, '..', '..');
/** Labels that Prometheus itself adds to every series. */
const ofTarget = ['instance', 'job'];

/** Labels of every series that an agent exports, by name. */
const series = new Map<string, readonly string[]>([
  ['up', ofTarget],
  ...[
    ...Object.entries<MetricRow>(metricRows).map(([name, row]) => [METRIC_PREFIX + name, row] as const),
    ...Object.entries<MetricRow>(processRows),
  ].flatMap(([name, { type, labels = [] }]): [string, readonly string[]][] => {
    const all = [...labels, ...ofTarget];
    return type === 'histogram'
      ? [
          [`${name}_bucket`, [...all, 'le']],
          [`${name}_sum`, all],
          [`${name}_count`, all],
        ]
      : [[name, all]];
  }),
]);

describe.each(expressions())('$where', ({ expr }) => {
  const { errors, selected, grouped } = readPromql(expr);
  it('is PromQL that names only exported metrics and labels', () => {
    expect(errors).toEqual([]);
    expect(selected.length).toBeGreaterThan(0);
    for (const { metric, labels } of selected)
      expect([metric, labels, series.get(metric) ?? 'no such metric']).toEqual([metric, labels, expect.arrayContaining([...labels])]);
    const known = new Set(selected.flatMap(({ metric }) => series.get(metric) ?? []));
    expect(grouped.filter((label) => !known.has(label))).toEqual([]);
  });
});

describe('alerts', () => {
  const rules = alertRules();
  it('have unique names, a severity, a meaning and a link', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    for (const { alert, labels, annotations } of rules) {
      expect(alert).toMatch(/^Seine[A-Z]\w+$/);
      expect(['critical', 'warning', 'info']).toContain(labels['severity']);
      expect([alert, annotations['summary']?.endsWith('.')]).toEqual([alert, true]);
      expect([alert, (annotations['description']?.length ?? 0) > 40]).toEqual([alert, true]);
    }
  });

  it.each(rules)('$alert links to an existing place in the docs', ({ annotations }) => {
    const [file = '', anchor] = (annotations['runbook'] ?? '').split('#');
    expect(existsSync(join(root, file))).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(file)).toContain(anchor);
  });

  it.each(rules)('$alert uses in its text only labels that its expression keeps', ({ expr, annotations }) => {
    const { selected, grouped } = readPromql(expr);
    const left = new Set([...ofTarget, ...grouped, ...selected.flatMap(({ metric }) => series.get(metric) ?? [])]);
    const named = Object.values(annotations).flatMap((text) => [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label ?? ''));
    expect(named.filter((label) => !left.has(label))).toEqual([]);
  });
});

describe('the dashboard', () => {
  it('has panels with unique numbers that do not overlap', () => {
    const { panels } = dashboard();
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { gridPos } of panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect([x < 24, taken.has(`${x} ${y}`)]).toEqual([true, false]);
          taken.add(`${x} ${y}`);
        }
  });

  it('uses in its legends only existing labels', () => {
    for (const { title, targets = [] } of dashboard().panels)
      for (const { expr, legendFormat } of targets) {
        const { selected, grouped } = readPromql(expr.replaceAll('$__rate_interval', '5m'));
        const left = new Set([...grouped, ...selected.flatMap(({ metric }) => series.get(metric) ?? [])]);
        const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label ?? '');
        expect([title, named.filter((label) => !left.has(label))]).toEqual([title, []]);
      }
  });
});

/** Anchors of headings, in GitHub's form. */
function anchorsOf(file: string): readonly string[] {
  return readFileSync(join(root, file), 'utf8')
    .split('\n')
    .flatMap((line) => /^#+ (.*)$/.exec(line)?.[1] ?? [])
    .map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    );
}
