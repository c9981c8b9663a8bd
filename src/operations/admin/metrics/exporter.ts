import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
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
    return await this.#registry.metrics();
  }

  #define(name: string, fullName: string, row: MetricRow): void {
    const common = { name: fullName, help: row.help, labelNames: [...(row.labels ?? [])], registers: [this.#registry] };
    if (row.type === 'histogram')
      this.#histograms.set(name as HistogramName, new Histogram({ ...common, buckets: [...(row.buckets ?? [])] }));
    else this.#scraped.set(name as ScrapedName, row.type === 'gauge' ? new Gauge(common) : new Counter(common));
  }
}

function replace(metric: Counter | Gauge, samples: readonly Sample[]): void {
  metric.reset();
  for (const [labels, value] of samples) {
    if (metric instanceof Gauge) metric.set(labels, value);
    else metric.inc(labels, value);
  }
}
