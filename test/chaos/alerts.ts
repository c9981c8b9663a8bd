import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Place } from './host.ts';
import { root } from './lab.ts';
import { Expression, type Sample, type Scrape } from './promql.ts';

export interface Alert {
  readonly name: string;
  readonly expression: Expression;
}

/** Alerts that may be true on a correct node: contradictory objects of the API, which a fresh node reports as well. */
export const ofObjects: ReadonlySet<string> = new Set(['SeineObjectsNotServed']);

/** Labels that the scrape configuration of `docs/reference/metrics.md` adds. */
const scraped = new Map([
  ['job', 'seine-agent'],
  ['instance', 'tried'],
]);

/** Another node, of which some metrics are read as well. */
export interface Beside {
  readonly place: Place;
  readonly only: ReadonlySet<string>;
}

/** Alerts of the shipped file, whatever their `for`. */
export function readAlerts(): readonly Alert[] {
  const file = readFileSync(join(root, 'build', 'observability', 'alerts.yaml'), 'utf8');
  const { groups } = parse(file) as { groups: { rules: { alert: string; expr: string }[] }[] };
  return groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => ({ name: alert, expression: new Expression(expr) })));
}

/**
 * @param text metrics (text exposition format); empty if there was no answer
 * @param wanted names of the metrics that are kept
 * @param beside of another node
 */
export function scrapeOf(
  atMs: number,
  text: string,
  wanted: ReadonlySet<string>,
  beside?: { readonly text: string; readonly only: ReadonlySet<string> },
): Scrape {
  const samples = new Map<string, Sample[]>([['up', [{ labels: scraped, value: text === '' ? 0 : 1 }]]]);
  read(samples, text, wanted, scraped);
  if (beside !== undefined) read(samples, beside.text, beside.only, new Map([...scraped, ['instance', 'beside']]));
  return { atMs, samples };
}

function read(into: Map<string, Sample[]>, text: string, wanted: ReadonlySet<string>, target: ReadonlyMap<string, string>): void {
  for (const [, metric = '', labels = '', value] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    if (!wanted.has(metric)) continue;
    const named = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', held = '']) => [name, held] as const);
    const known = into.get(metric);
    const sample = { labels: new Map([...target, ...named]), value: Number(value) };
    if (known === undefined) into.set(metric, [sample]);
    else known.push(sample);
  }
}

/** Alerts that are true, with their labels. @param scrapes in their order; windows are their whole span */
export function firing(
  alerts: readonly Alert[],
  scrapes: readonly Scrape[],
): readonly { readonly name: string; readonly description: string }[] {
  return alerts.flatMap(({ name, expression }) =>
    expression.evaluate(scrapes).map(({ labels }) => ({ name, description: `${name} ${labelText(labels)}`.trim() })),
  );
}

function labelText(labels: ReadonlyMap<string, string>): string {
  return [...labels]
    .filter(([name]) => !scraped.has(name))
    .map(([name, held]) => `${name}=${held}`)
    .toSorted()
    .join();
}
