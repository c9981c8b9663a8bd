import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
  formerHelp,
  type HistogramName,
  METRIC_PREFIX,
  type MetricRow,
  metricRows,
  type ProcessMetricName,
  processRows,
  type ScrapedName,
} from './metric-rows.ts';

export type LabelSet = Readonly<Record<string, string>>;
export type Sample = readonly [labels: LabelSet, value: number];

/** Samples of each metric at a scrape. */
export type Scrape = Readonly<Record<ScrapedName, readonly Sample[]>>;

/** Formats the text of `/metrics`: histograms are filled when events occur, everything else is read at the scrape. */
export class Exporter {
  readonly contentType: string;
  readonly #registry = new Registry();
  readonly #histograms = new Map<HistogramName, Histogram>();
  readonly #scraped = new Map<ScrapedName | ProcessMetricName, Counter | Gauge>();
  /** Metrics under their former names. */
  readonly #former = new Map<ScrapedName, { readonly metric: Counter | Gauge; readonly row: MetricRow }>();

  constructor() {
    this.contentType = this.#registry.contentType;
    for (const [name, row] of Object.entries<MetricRow>(metricRows)) this.#define(name, `${METRIC_PREFIX}${name}`, row);
    for (const [name, row] of Object.entries<MetricRow>(processRows)) this.#define(name, name, row);
  }

  observe(name: HistogramName, labels: LabelSet, value: number): void {
    this.#histograms.get(name)?.observe(labels, value);
  }

  /** Prometheus text format 0.0.4. */
  async text(scrape: Scrape & Readonly<Record<ProcessMetricName, readonly Sample[]>>): Promise<string> {
    for (const [name, metric] of this.#scraped) replace(metric, scrape[name]);
    for (const [name, { metric, row }] of this.#former) replace(metric, withFormerLabels(scrape[name], row));
    return await this.#registry.metrics();
  }

  #define(name: string, fullName: string, row: MetricRow): void {
    const common = { name: fullName, help: row.help, labelNames: [...(row.labels ?? [])], registers: [this.#registry] };
    if (row.type === 'histogram')
      this.#histograms.set(name as HistogramName, new Histogram({ ...common, buckets: [...(row.buckets ?? [])] }));
    else {
      this.#scraped.set(name as ScrapedName, row.type === 'gauge' ? new Gauge(common) : new Counter(common));
      if (row.former !== undefined) this.#defineFormer(name as ScrapedName, row, row.former);
    }
  }

  #defineFormer(name: ScrapedName, row: MetricRow, { name: former, labels = row.labels ?? [] }: NonNullable<MetricRow['former']>): void {
    const help = formerHelp(name);
    const common = { name: `${METRIC_PREFIX}${former}`, help, labelNames: [...labels], registers: [this.#registry] };
    this.#former.set(name, { metric: row.type === 'gauge' ? new Gauge(common) : new Counter(common), row });
  }
}

function replace(metric: Counter | Gauge, samples: readonly Sample[]): void {
  metric.reset();
  for (const [labels, value] of samples) {
    if (metric instanceof Gauge) metric.set(labels, value);
    else metric.inc(labels, value);
  }
}

function withFormerLabels(samples: readonly Sample[], { labels = [], former }: MetricRow): readonly Sample[] {
  const names = former?.labels;
  if (names === undefined) return samples;
  return samples.map(([set, value]): Sample => {
    const renamed = labels.flatMap((label, index) => {
      const [held, name] = [set[label], names[index]];
      return held === undefined || name === undefined ? [] : [[name, held] as const];
    });
    return [Object.fromEntries(renamed), value];
  });
}
